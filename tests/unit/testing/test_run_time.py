"""Programs that time changes, in simulated runs with everything at once: disorder, pauses, deaths and failing disks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from millpond.testing import EOF, KILL, assert_equals_plain, at, pause, random_faults, simulate
from tests.programs.timed import Aged, Alarms, Moves, Pledges
from tests.programs.windowed import Adding, Corrected, Meters, Ordered
from tests.sizes import sized

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
PROGRAMS = (Aged, Alarms, Moves, Pledges, Meters, Corrected, Ordered, Adding)
NO_LATENESS = (Meters, Ordered, Adding)
"""Their windows are not kept for late rows."""

pytestmark = pytest.mark.slow


def some_row(program, chance):
    points = [point for point in program.entries().values() if not point.timer]
    point = chance.choice(points)
    draw = {
        str: lambda: chance.choice("abc"),
        int: lambda: chance.randrange(4),
        float: lambda: float(chance.randrange(4)),
    }
    return point.name, *(draw[hint]() for _, hint in point.parameters)


def some_steps(program, chance, *, timed):
    now = NOON
    for _ in range(chance.randrange(4, 14)):
        row = some_row(program, chance)
        now += timedelta(seconds=chance.randrange(4))
        yield at(now - timedelta(seconds=chance.randrange(5)), row) if timed else row
        passing = pause(timedelta(seconds=chance.randrange(1, 9)))
        yield from chance.choice([(), (), (), (), (), (EOF,), (KILL,), (passing,), (passing, EOF)])


@pytest.mark.parametrize("seed", sized(range(3), [0]))
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_whatever_happens_a_run_equals_plain_python(program, timed, seed):
    chance = random.Random(f"{program.__name__} {timed} {seed}")
    steps = list(some_steps(program, chance, timed=timed))
    epochs = chance.randrange(1, 4)
    lateness = timedelta(seconds=0 if program in NO_LATENESS else chance.choice([0, 3]))
    run = simulate(
        program,
        steps,
        epochs=epochs,
        partitions=chance.randrange(1, 4),
        faults=random_faults(seed, 2, epochs=epochs),
        on_bad_row="skip",
        disorder=timedelta(seconds=chance.choice([0, 1, 4])),
        lateness=lateness,
        late=chance.choice(["keep", "drop"]),
        close=chance.choice([False, True]),
    )
    assert_equals_plain(run)
    assert len(run.faults) == 2

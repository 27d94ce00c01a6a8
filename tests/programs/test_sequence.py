"""Programs that run in sequence equal plain Python: whatever the epochs and partitions, with restarts in between."""

from __future__ import annotations

import random

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.engine.plan import BadRows
from millpond.engine.sequence import streaming
from millpond.engine.sequence.portions import in_portions
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import Aborted
from millpond.keygroups import DEFAULT_KEY_GROUPS, Layout
from tests.fuzz.oracle import shown
from tests.fuzz.transactions.truth import truth_of
from tests.programs import sequence_shops, sequence_structures
from tests.sizes import compile_once

PROGRAMS = {**sequence_shops.PROGRAMS, **sequence_structures.PROGRAMS}
ROWS = 48
LAYOUT = Layout(DEFAULT_KEY_GROUPS, 1, 1, aligned=False)


def run(program, rows, folder, epochs, partitions, memory_bytes=0):
    """Run rows in some epochs, each in a run of its own; the replies and refusals by the number of the row."""
    size = -(-len(rows) // epochs)
    replies, refused = {}, {}
    for start in range(0, len(rows), size):
        one = Simulated(compile_once(program), folder, partitions, bad_rows=BadRows.SKIP, memory_bytes=memory_bytes)
        one.epoch(rows[start : start + size])
        replies |= one.replies()
        refused |= one.refusals()
        state = read_state(one.storage)
        one.close()
    return {at: repr(reply) for at, reply in replies.items() if at not in refused}, refused, state


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_some_entry_point_runs_in_sequence(program):
    assert compile_once(program).graph.sequence


@pytest.mark.parametrize(("epochs", "partitions"), [(1, 1), (1, 5), (3, 2), (3, 5), (ROWS, 2)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_rows_in_sequence_equal_plain_python(program, epochs, partitions, tmp_path):
    rows = list(PROGRAMS[program](random.Random(f"{program.__name__} {epochs} {partitions}"), ROWS))
    truth = truth_of(program, rows, LAYOUT)
    replies, refused, state = run(program, rows, tmp_path, epochs, partitions)
    assert replies == truth.replies
    assert refused == truth.aborted
    assert state == truth.state


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_rows_that_come_by_and_by_equal_plain_python_with_next_to_no_memory(program, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "in_portions", lambda batches: in_portions(batches, 5))
    rows = list(PROGRAMS[program](random.Random(f"{program.__name__} by and by"), ROWS))
    truth = truth_of(program, rows, LAYOUT)
    assert run(program, rows, tmp_path, 2, 3, memory_bytes=1) == (truth.replies, truth.aborted, truth.state)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_records_one_by_one_equal_plain_python(program):
    rows = list(PROGRAMS[program](random.Random(program.__name__), ROWS))
    truth = truth_of(program, rows, LAYOUT)
    records = Sequential(compile_once(program), instances=1)
    replies, refused, raised = {}, {}, {}
    for number, (name, given) in enumerate(rows):
        try:
            replies[number] = records.call(name, *given)
        except Aborted as error:
            refused[number] = error.reason
        except Exception as error:  # noqa: BLE001 - whatever a row of these programs raises
            raised[number] = type(error).__name__
    points = [program.entries()[name] for name, _ in rows]
    told = {at: shown(reply, points[at].returns) for at, reply in replies.items() if points[at].replies}
    assert (told, raised) == (truth.replies, truth.raised)
    assert refused == truth.aborted
    assert records.state() == truth.state

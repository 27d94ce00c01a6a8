"""Handlers that feed each other: any cut into epochs, partitions and restarts give what a brute force says."""

from __future__ import annotations

import random
from ast import literal_eval
from datetime import UTC, datetime

import pytest

from millpond.compiler import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import epoch_time, event_time, moment_of
from millpond.program.timers import fire_timers
from tests.fuzz.loading import loaded, temporary_folder
from tests.programs.timed import fired_by
from tests.property.chained import BEGIN, SECOND, Brute, rows_of, spec_of, text_of
from tests.sizes import some_of

END = datetime.max.replace(tzinfo=UTC)
ROWS = 40


def wanted_of(spec, rows):
    brute = Brute(spec)
    for row in rows:
        brute.put(*row)
    brute.run(max(time for time, _, _ in rows) - spec.disorder * SECOND)
    return brute


def cut(chance, rows):
    """Rows in pieces, cut anywhere; some pieces have none."""
    cuts = sorted(chance.randint(0, len(rows)) for _ in range(chance.choice((0, 1, 2, 7))))
    return [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def simulated_run(spec, compiled, folder, pieces, chance):
    times = FeedTime(disorder_us=spec.disorder * SECOND, lateness_us=spec.lateness * SECOND)

    def make():
        return Simulated(compiled, folder, chance.randint(1, 4), key_groups=8, event_time={"put": times})

    run, said = make(), {node.name: [] for node in spec.nodes}

    def take():
        for name, replies in fired_by(run, said).items():
            said[name] += replies

    for number, piece in enumerate(pieces):
        with epoch_time(BEGIN + number + 1):
            if number and chance.random() < 0.2:
                take()
                run = make()
            rows = [("put", (key, n)) for _, key, n in piece]
            run.epoch(rows, [time for time, _, _ in piece], ends=number == len(pieces) - 1)
    take()
    return {name: [literal_eval(one) for one in replies] for name, replies in said.items()}


def plain_run(spec, program, pieces):
    run, said, highest = program(), {node.name: [] for node in spec.nodes}, None
    for piece in pieces:
        for time, key, n in piece:
            with event_time(time):
                run.put(key, n)
            highest = time if highest is None else max(time, highest)
        if highest is not None:
            fired_into(said, fire_timers(run, moment_of(highest - spec.disorder * SECOND)))
    fired_into(said, fire_timers(run, END))
    return said


def fired_into(said, fired):
    for one in fired:
        said[one.handler].append(literal_eval(one.reply))


def steps_run(spec, compiled, pieces):
    run, said, highest = Sequential(compiled, key_groups=8), [], None
    for piece in pieces:
        run.epoch([("put", (key, n)) for _, key, n in piece], [time for time, _, _ in piece])
        known = [time for time, _, _ in piece] + ([] if highest is None else [highest])
        highest = max(known, default=None)
        if highest is not None:
            said += run.fire_timers(highest - spec.disorder * SECOND)
    return [literal_eval(one) for one in said + run.fire_timers((END - moment_of(0)) // (moment_of(1) - moment_of(0)))]


def table_of(replies):
    """The last word on each window, as it is said what to do with changes."""
    table = {}
    for key, told, *_ in replies:
        for begin, end, values, change in told:
            table.pop((key, begin, end), None)
            if change != "retract":
                table[key, begin, end] = values
    return table


def compare(spec, found, wanted):
    for node in spec.nodes:
        own, right = found[node.name], wanted.replies.get(node.name, [])
        if spec.timely(node) and not spec.corrected(node):
            assert own == right, (node, left_over(own, right))
        else:
            assert table_of(own) == table_of(right), (node, left_over(table_of(own).items(), table_of(right).items()))


def left_over(own, right):
    """What is only on one side, the first of each."""
    missing, extra = ([one for one in some if one not in others][:2] for some, others in ((right, own), (own, right)))
    return f"expected {missing}, found {extra}" if missing or extra else "in another order"


def made_of(seed):
    """A specification and rows out of a number."""
    chance = random.Random(seed)
    spec = spec_of(chance)
    return spec, rows_of(chance, spec, ROWS)


def check(seed, *, spread=True):
    spec, rows = made_of(seed)
    return spec, check_case(spec, rows, random.Random(f"cuts {seed}"), spread=spread)


def check_case(spec, rows, chance, *, spread=True):
    """Run rows over several cuts, all ways; what the brute force says they are told."""
    wanted = wanted_of(spec, rows)
    with loaded(text_of(spec)) as program:
        compiled = compile_program(program)
        for _ in range(3):
            pieces = cut(chance, rows)
            compare(spec, plain_run(spec, program, pieces), wanted)
            if spread:
                with temporary_folder() as folder:
                    compare(spec, simulated_run(spec, compiled, folder, pieces, chance), wanted)
        said = sorted(map(repr, steps_run(spec, compiled, cut(chance, rows))))
        if all(spec.timely(node) and not spec.corrected(node) for node in spec.nodes):
            assert said == sorted(repr(one) for own in wanted.replies.values() for one in own)
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_handlers_that_feed_each_other_are_told_what_a_brute_force_says_on_any_cut(part):
    met = [check(seed) for seed in range(part, some_of(28), 2)]
    assert sum(len(own) for _, wanted in met for own in wanted.replies.values()) > some_of(200)
    assert any(spec.lateness for spec, _ in met)

"""Ten programs as users write them: on any number of partitions and with any epochs they do what their oracle does."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from examples.refusals import play
from millpond.checkpoint.recovery import read_state
from millpond.engine.simulated import Simulated
from millpond.graph.model import Dispatch
from millpond.keygroups import Layout
from millpond.storage.backends.files import FileStorage
from tests.fuzz.oracle import committed_state, plain_state
from tests.sizes import compile_once
from tests.unit.examples.ten import CASES, Truth, decoded, expect, plain_replies

ROWS = 200
KEY_GROUPS = 16
INSTANCES = 4
EPOCHS_MAX = 5
PARTITIONS = (1, 2, 3, 7)

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

pytestmark = pytest.mark.slow


def cut(rows, seed):
    """Cut rows into epochs at random places; some may be empty."""
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(rows) + 1) for _ in range(chance.randrange(EPOCHS_MAX)))
    return [rows[start:end] for start, end in pairwise([0, *places, len(rows)])]


def simulate(case, epochs, partitions, directory, instances=INSTANCES):
    """Run each epoch on the number of partitions that is its own; replies as text, and the state in bytes."""
    compiled = compile_once(case.program)
    replies = {}
    for epoch, number in zip(epochs, partitions, strict=True):
        run = Simulated(compiled, directory, number, KEY_GROUPS, instances)
        run.epoch(epoch)
        replies |= run.replies()
    return replies, read_state(FileStorage(directory / "checkpoint"))


def texts_of(replies):
    return {number: repr(reply) for number, reply in replies.items()}


@pytest.mark.parametrize("partitions", PARTITIONS)
@each_case
def test_a_run_equals_its_oracle_whatever_the_partitions_and_epochs(case, partitions, tmp_path):
    seed = 1000 * partitions + CASES.index(case)
    rows = case.rows(seed, ROWS)
    epochs = cut(rows, seed)
    wanted = expect(case, epochs, KEY_GROUPS, INSTANCES)
    replies, state = simulate(case, epochs, [partitions] * len(epochs), tmp_path)
    assert texts_of(replies) == wanted.replies
    assert state == wanted.state
    case.holds(rows, replies, decoded(case.program, state))


@each_case
def test_a_checkpoint_goes_on_with_other_partitions_after_every_epoch(case, tmp_path):
    rows = case.rows(77, ROWS)
    epochs = [rows[start : start + ROWS // 4] for start in range(0, ROWS, ROWS // 4)]
    wanted = expect(case, epochs, KEY_GROUPS, INSTANCES)
    replies, state = simulate(case, epochs, (3, 1, 7, 2), tmp_path)
    assert texts_of(replies) == wanted.replies
    assert state == wanted.state


@pytest.mark.parametrize("case", [case for case in CASES if case.truth is Truth.PLAIN], ids=lambda case: case.name)
def test_the_state_of_an_exact_program_is_that_of_the_plain_class(case, tmp_path):
    rows = case.rows(5, ROWS)
    plain = case.program()
    play(plain, rows)
    epochs = cut(rows, 5)
    _, state = simulate(case, epochs, [2] * len(epochs), tmp_path)
    layout = Layout(KEY_GROUPS, 1, INSTANCES, compile_once(case.program).has_partial)
    assert committed_state(case.program.elements(), state) == plain_state(plain, layout)


@pytest.mark.parametrize("case", [case for case in CASES if case.truth is Truth.STEPS], ids=lambda case: case.name)
def test_a_relaxed_program_with_one_row_per_epoch_answers_as_the_plain_class(case, tmp_path):
    rows = case.rows(6, 60)
    replies, _ = simulate(case, [[row] for row in rows], [2] * len(rows), tmp_path)
    assert texts_of(replies) == plain_replies(case, rows)


def test_transfers_of_one_epoch_follow_each_other_and_refusals_are_told(tmp_path):
    (case,) = [case for case in CASES if case.name == "Bank"]
    rows = [
        ("deposit", ("a", 5)),
        ("transfer", ("a", "b", 5)),
        ("transfer", ("b", "c", 4)),
        ("transfer", ("b", "c", 4)),
    ]
    assert plain_replies(case, rows) == {0: "5", 1: "0", 2: "1", 3: "None"}
    run = Simulated(compile_once(case.program), tmp_path, 3)
    run.epoch(rows)
    assert texts_of(run.replies()) == plain_replies(case, rows)
    assert run.refusals() == {3: "b lacks the money"}


@pytest.mark.parametrize("case", [case for case in CASES if case.truth is Truth.COPIES], ids=lambda case: case.name)
def test_a_model_with_one_copy_answers_as_the_plain_class(case, tmp_path):
    rows = case.rows(7, ROWS)
    epochs = cut(rows, 7)
    replies, _ = simulate(case, epochs, [1] * len(epochs), tmp_path, instances=1)
    assert texts_of(replies) == plain_replies(case, rows)


@each_case
def test_relaxed_is_what_needs_it_and_nothing_else(case):
    relaxed = {name for name, point in case.program.entries().items() if point.relaxed}
    assert relaxed == {"SearchIndex": {"search"}}.get(case.name, set())


@each_case
def test_gathered_is_what_has_several_keys_and_no_order(case):
    entries = compile_once(case.program).entries
    gathered = {name for name, entry in entries.items() if entry.tasks[0].dispatch is Dispatch.GATHERED}
    assert gathered == (set(entries) if case.name == "Bank" else set())


@each_case
def test_an_example_runs_as_a_module_and_follows_from_its_seed(case, capsys):
    assert case.module.main() == 0
    said = capsys.readouterr().out
    assert case.module.main() == 0
    assert capsys.readouterr().out == said
    assert len(said.splitlines()) > 5
    assert case.rows(1, 50) == case.rows(1, 50) != case.rows(2, 50)

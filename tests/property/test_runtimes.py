"""Plain Python, the sequential runtime and many partitions give the same replies and the same bytes of state."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.checkpoint.snapshots import snapshots
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from tests.programs.keyed import (
    PROGRAMS,
    Store,
    Totals,
    Words,
    committed_state,
    fresh_seed,
    oracle,
    random_row,
    random_rows,
)
from tests.sizes import compile_once, sized, some_of

PARTITIONS = (1, 2, 3, 7)
KEYS = st.text(max_size=4)
INTS = st.integers(-(2**63), 2**63 - 1)
STORE_ROWS = st.one_of(
    st.tuples(st.just("put"), st.tuples(KEYS, st.text(max_size=6))),
    st.tuples(st.just("get"), st.tuples(KEYS)),
    st.tuples(st.just("delete"), st.tuples(KEYS)),
)
TOTALS_ROWS = st.tuples(
    st.just("add"), st.tuples(st.one_of(st.integers(0, 3), INTS), st.floats(allow_nan=False, width=32))
)
WORDS_ROWS = st.one_of(
    st.tuples(st.just("add"), st.tuples(st.text(alphabet="ab ", max_size=8))),
    st.tuples(st.just("count"), st.tuples(st.text(alphabet="ab", max_size=2))),
)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Snapshots at every third epoch, and some deltas in files of their own."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 120)


def run_in_epochs(program, rows, sizes, folder, partitions):
    """Cut the rows into epochs of the given sizes, over and over, each on the next number of partitions."""
    replies = {}
    at = turn = 0
    while at < len(rows):
        simulated = Simulated(compile_once(program), folder, partitions=partitions[turn % len(partitions)])
        assert simulated.fed == at
        size = sizes[turn % len(sizes)]
        simulated.epoch(rows[at : at + size])
        replies |= simulated.replies()
        at, turn = at + size, turn + 1
    return replies


def check_same_everywhere(program, rows, sizes, partitions):
    wanted = oracle(program, rows)
    folder = Path(tempfile.mkdtemp())
    try:
        assert run_in_epochs(program, rows, sizes, folder, partitions) == wanted.replies
        assert committed_state(folder / "checkpoint") == wanted.state
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("partitions", sized(PARTITIONS, (2, 7)))
@pytest.mark.parametrize("program", PROGRAMS)
def test_any_number_of_partitions_equals_plain_python(program, partitions, tmp_path):
    seed = fresh_seed()
    rng = random.Random(seed)
    rows = random_rows(program, seed, 90)
    wanted = oracle(program, rows)
    simulated = Simulated(compile_once(program), tmp_path, partitions=partitions)
    at = 0
    while at < len(rows):
        size = rng.randrange(1, 40)
        simulated.epoch(rows[at : at + size])
        at += size
    assert simulated.replies() == wanted.replies
    assert committed_state(tmp_path / "checkpoint") == wanted.state


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=some_of(5))
@given(st.integers(0, 2**32), st.lists(st.integers(1, 12), min_size=1, max_size=4), st.permutations(PARTITIONS))
def test_restarts_on_other_partitions_change_nothing(program, seed, sizes, partitions):
    rng = random.Random(seed)
    rows = [random_row(program, rng, number) for number in range(30)]
    check_same_everywhere(program, rows, sizes, partitions)


@settings(max_examples=some_of(12))
@given(st.lists(STORE_ROWS, max_size=25), st.integers(1, 9), st.sampled_from(PARTITIONS))
def test_a_store_of_any_text_equals_plain_python(rows, size, partitions):
    check_same_everywhere(Store, rows, [size], [partitions])


@settings(max_examples=some_of(12))
@given(st.lists(TOTALS_ROWS, max_size=25), st.integers(1, 9), st.sampled_from(PARTITIONS))
def test_totals_of_any_integers_equal_plain_python(rows, size, partitions):
    check_same_everywhere(Totals, rows, [size], [partitions])


@settings(max_examples=some_of(12))
@given(st.lists(WORDS_ROWS, max_size=25), st.integers(1, 9), st.sampled_from(PARTITIONS))
def test_partial_counts_of_any_lines_equal_plain_python(rows, size, partitions):
    check_same_everywhere(Words, rows, [size], [partitions])

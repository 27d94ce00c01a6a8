"""The checks that stand between a wrong result and a number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import keyed_state, word_count
from benchmarks.data import keyed_events, word_lines
from benchmarks.emitted import COLUMNS, Emitted, by_loop, by_millpond, by_peer, check_every, check_final
from benchmarks.report import BenchmarkError
from benchmarks.word_count import check_counts, peer_counts


@pytest.fixture
def files(tmp_path):
    return keyed_events(200, 30, 2, 1, tmp_path)


@pytest.fixture
def emitted(files):
    return by_loop(files, keyed_state.plain_loop(files)[1])


def columns_of(emitted):
    return {name: getattr(emitted, name) for name in COLUMNS}


def test_the_loop_is_the_program_run_as_plain_python(files):
    program = keyed_state.RunningTotals()
    rows = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    replies = [program.add(row["key"], row["amount"]) for row in rows]
    totals, emitted = keyed_state.plain_loop(files)
    assert emitted == replies
    assert totals == dict(program.totals.items())


def test_the_order_of_rows_does_not_matter_to_the_check(emitted):
    mixed = np.random.default_rng(1).permutation(len(emitted.key))
    check_every(Emitted.of(*(column[mixed] for column in columns_of(emitted).values())), emitted, "x")


@given(place=st.integers(0, 199), column=st.sampled_from(COLUMNS))
def test_one_wrong_value_anywhere_is_found(tmp_path_factory, place, column):
    files = keyed_events(200, 30, 2, 1, tmp_path_factory.getbasetemp() / "shared")
    want = by_loop(files, keyed_state.plain_loop(files)[1])
    wrong = getattr(want, column).copy()
    wrong[place] += 1
    with pytest.raises(BenchmarkError, match=f"x did not emit .* `{column}`"):
        check_every(replace(want, **{column: wrong}), want, "x")


@pytest.mark.parametrize("check", [check_every, check_final])
def test_a_missing_or_doubled_event_is_found(emitted, check):
    for rows in (slice(1, None), slice(0, -1), [*range(200), 0]):
        got = Emitted.of(*(column[rows] for column in columns_of(emitted).values()))
        with pytest.raises(BenchmarkError):
            check(got, emitted, "x")


def test_the_peer_may_meet_the_events_of_a_batch_in_another_order_but_not_end_elsewhere():
    want = Emitted.of(np.array([1, 1, 2]), np.array([3.0, 4.0, 5.0]), np.array([1, 2, 1]), np.array([3.0, 7.0, 5.0]))
    check_final(replace(want, total=np.array([4.0, 7.0, 5.0])), want, "x")
    with pytest.raises(BenchmarkError, match="did not end"):
        check_final(replace(want, total=np.array([3.0, 8.0, 5.0])), want, "x")


def test_a_sample_of_keys_has_all_their_events(emitted):
    part = emitted.below(7)
    assert set(part.key) == set(range(7))
    assert len(part.key) == int((emitted.key < 7).sum())
    assert len(part.final()) == 7


def test_replies_and_rows_are_read_as_they_are_written(tmp_path, emitted):
    columns = columns_of(emitted)
    (tmp_path / "peer").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "peer" / "a.parquet")
    check_every(by_peer(tmp_path / "peer"), emitted, "x")
    reply = pa.StructArray.from_arrays([pa.array(columns["count"]), pa.array(columns["total"])], ["_1", "_2"])
    (tmp_path / "ours").mkdir()
    table = pa.table({"key": columns["key"], "amount": columns["amount"], "reply": reply})
    for number, part in enumerate((table.slice(0, 90), table.slice(90))):
        pq.write_table(part, tmp_path / "ours" / f"{number}.parquet")
    check_every(by_millpond(tmp_path / "ours"), emitted, "x")


def test_a_checkpoint_without_the_state_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match="checkpoint"):
        keyed_state.check_state(tmp_path / "empty", {1: (1, 2.0)})


def test_both_loops_and_the_programs_count_the_same_words(tmp_path):
    files = word_lines(40, 25, 2, 1, tmp_path)
    by_word, by_line = word_count.CountByWord(), word_count.CountByLine()
    for file in files:
        for line in pq.read_table(file)["line"].to_pylist():
            by_line.add(line)
            for each_word in line.split():
                by_word.add(each_word)
    counts = word_count.plain_loop(files)
    assert sum(counts.values()) == 40 * 8
    assert counts == word_count.plain_counter(files) == dict(by_word.counts.items())
    assert counts == {each_word: by_line.count(each_word) for each_word in counts}


@pytest.mark.parametrize("got", [{}, {"a": 2}, {"a": 2, "b": 4}, {"a": 2, "b": 3, "c": 1}])
def test_a_wrong_missing_or_extra_count_is_found(got):
    with pytest.raises(BenchmarkError, match=r"x counted otherwise .* words differ"):
        check_counts(got, {"a": 2, "b": 3}, "x")


def test_the_last_count_of_a_word_counts(tmp_path):
    pq.write_table(pa.table({"word": ["a", "b", "a"], "count": [5, 1, 2]}), tmp_path / "a.parquet")
    assert peer_counts(tmp_path) == {"a": 5, "b": 1}

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import data
from benchmarks.data import keyed_events, word, word_lines, work_folder


def rows_of(files):
    return pa.concat_tables([pq.read_table(file) for file in files])


def test_the_same_seed_gives_the_same_events(tmp_path):
    one, other, different = (
        rows_of(keyed_events(500, 40, 2, seed, tmp_path / name)) for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert one == other
    assert one != different


def test_every_key_occurs_when_there_are_enough_events(tmp_path):
    assert set(rows_of(keyed_events(300, 250, 3, 1, tmp_path))["key"].to_pylist()) == set(range(250))


def test_keys_stay_in_range_when_there_are_more_of_them_than_events(tmp_path):
    rows = rows_of(keyed_events(10, 1_000, 1, 1, tmp_path))
    assert rows.num_rows == 10
    assert set(rows["key"].to_pylist()) <= set(range(1_000))


def test_all_rows_are_in_as_many_files_as_asked_for_in_order_of_age(tmp_path):
    files = keyed_events(10, 4, 3, 1, tmp_path)
    assert [pq.read_table(file).num_rows for file in files] == [3, 3, 4]
    ages = [file.stat().st_mtime for file in files]
    assert ages == sorted(set(ages))


def test_lines_have_eight_words_of_the_vocabulary(tmp_path):
    lines = rows_of(word_lines(50, 20, 2, 1, tmp_path))["line"].to_pylist()
    vocabulary = {word(number) for number in range(20)}
    assert len(lines) == 50
    assert all(len(line.split()) == 8 and set(line.split()) <= vocabulary for line in lines)


def test_input_is_written_once(tmp_path):
    first = keyed_events(20, 4, 2, 1, tmp_path)
    stamps = [file.stat().st_ino for file in first]
    again = keyed_events(20, 4, 2, 1, tmp_path)
    assert (again, [file.stat().st_ino for file in again]) == (first, stamps)


def test_input_that_could_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError("no space left")

    monkeypatch.setattr(data.pq, "write_table", full)
    with pytest.raises(OSError, match="no space"):
        keyed_events(20, 4, 2, 1, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.name != "data"] == []


@given(st.integers(0, 9_999_999), st.integers(0, 9_999_999))
def test_words_sort_as_their_numbers_do(one, other):
    assert (word(one) < word(other)) == (one < other)


def test_a_work_folder_is_gone_after_a_failure(tmp_path):
    def fail():
        with work_folder("x", tmp_path) as folder:
            (folder / "file").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []

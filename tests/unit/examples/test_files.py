from __future__ import annotations

import pyarrow as pa

from examples.files import fresh_folder, parts_of, read_rows, write_parts

COLUMNS = pa.schema([("at", pa.int64())])


def test_a_fresh_folder_is_empty_whatever_was_in_it(tmp_path):
    folder = tmp_path / "out" / "example"
    (fresh_folder(folder) / "old.txt").write_text("old", encoding="utf-8")
    assert list(fresh_folder(folder).iterdir()) == []


def test_a_row_belongs_to_the_first_part_that_ends_after_it():
    rows = [{"at": at} for at in (0, 4, 5, 9)]
    assert parts_of(rows, "at", [5, 6, 7, 10]) == [rows[:2], rows[2:3], [], rows[3:]]


def test_every_part_is_a_file_and_later_ones_are_younger(tmp_path):
    folder = write_parts(tmp_path / "parts", COLUMNS, [[{"at": 2}], [], [{"at": 1}]])
    files = sorted(folder.iterdir())
    assert len(files) == 3
    ages = [file.stat().st_mtime for file in files]
    assert ages == sorted(set(ages))
    assert [row["at"] for row in read_rows(folder)] == [2, 1]

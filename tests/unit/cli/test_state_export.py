"""Exported tables hold what the plain program holds, in every form; what does not fit a column is told."""

from __future__ import annotations

import csv
import datetime
import json
import os
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from millpond.checkpoint.read.elements import ElementReader, Entry
from millpond.checkpoint.read.entries import Change, Kind
from millpond.checkpoint.read.plain import as_json, json_text
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.cli import app
from millpond.engine.statetables import BATCH_ROWS, change_batches, entry_batches, entry_columns
from millpond.errors import StateError
from tests.programs.state_program import ELEMENTS, run


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    return folder / "checkpoint", run(folder, 3, 150, seed=11)


def export(folder, element, to, *more, code=0):
    result = CliRunner().invoke(app, ["state", "export", str(folder), element, "--to", str(to), *map(str, more)])
    assert result.exit_code == code, result.output
    return result


def arrow_key(key):
    """A key as a column holds it: tuples are structs."""
    return {f"_{place}": part for place, part in enumerate(key, 1)} if isinstance(key, tuple) else key


def arrow_value(element, value):
    if element == "spots":
        return json_text(value)
    return sorted(value.items()) if element == "ratings" else value


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("epoch", [1, 3])
def test_parquet_holds_the_plain_state(checkpoint, tmp_path, element, epoch):
    folder, tables = checkpoint
    file = tmp_path / "out.parquet"
    export(folder, element, file, "--epoch", epoch)
    rows = pq.read_table(file).to_pylist()
    plain = tables[epoch][element]
    if element == "counts":
        assert list(rows[0]) == ["instance", "key", "value"]
        total = Counter()
        for row in rows:
            total[row["key"]] += row["value"]
        assert dict(total) == plain
        return
    wanted = []
    for key, value in plain.items():
        row = {} if element == "total" else {"key": arrow_key(key)}
        wanted.append(row | ({} if element == "seen" else {"value": arrow_value(element, value)}))
    for row in rows:
        if element == "ratings":
            row["value"] = sorted(row["value"])
    assert sorted(map(repr, rows)) == sorted(map(repr, map(_scaled, wanted)))


def _scaled(row):
    """Decimals in columns have eighteen places."""
    value = row.get("value")
    return row | {"value": value.quantize(Decimal("1e-18"))} if isinstance(value, Decimal) else row


@pytest.mark.parametrize("element", ELEMENTS)
def test_json_lines_hold_the_plain_state(checkpoint, tmp_path, element):
    folder, tables = checkpoint
    file = tmp_path / "out.jsonl"
    export(folder, element, file)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    if element == "counts":
        total = Counter()
        for row in rows:
            total[row["key"]] += row["value"]
        assert dict(total) == tables[3][element]
        return
    wanted = []
    for key, value in tables[3][element].items():
        row = {} if element == "total" else {"key": as_json(key)}
        wanted.append(row | ({} if element == "seen" else {"value": as_json(value)}))
    assert sorted(json.dumps(row, sort_keys=True) for row in rows) == sorted(
        json.dumps(row, sort_keys=True) for row in wanted
    )


@pytest.mark.parametrize("element", ["words", "spots", "prices", "seen"])
def test_csv_holds_the_plain_state(checkpoint, tmp_path, element):
    folder, tables = checkpoint
    file = tmp_path / "out.CSV"
    export(folder, element, file)
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [*rows[0]] == (["key"] if element == "seen" else ["key", "value"])
    wanted = []
    for key, value in tables[3][element].items():
        cells = {"key": key} | ({} if element == "seen" else {"value": value})
        plain = {name: as_json(cell) for name, cell in cells.items()}
        wanted.append({n: "" if c is None else c if isinstance(c, str) else json_text(c) for n, c in plain.items()})
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


def test_an_export_replaces_a_file_and_a_failed_one_leaves_it(checkpoint, tmp_path):
    folder, _ = checkpoint
    file = tmp_path / "out.jsonl"
    file.write_text("old", encoding="utf-8")
    assert export(folder, "wrods", file, code=1).stderr.startswith("MP240")
    assert export(folder, "words", file, "--epoch", 9, code=1).stderr.startswith("MP450")
    assert file.read_text(encoding="utf-8") == "old"
    assert "rows of words at epoch 3" in export(folder, "words", file).stdout
    report = json.loads(export(folder, "words", file, "--json").stdout)
    assert report["rows"] == len(file.read_text(encoding="utf-8").splitlines())
    assert [found.name for found in tmp_path.iterdir()] == ["out.jsonl"]
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_file_that_can_not_be_written_is_told(checkpoint, tmp_path):
    folder, _ = checkpoint
    assert export(folder, "words", tmp_path / "out.txt", code=1).stderr.startswith("MP720")
    assert export(folder, "words", tmp_path / "out", code=1).stderr.startswith("MP720")
    assert export(folder, "words", tmp_path / "no" / "out.csv", code=1).stderr.startswith("MP718")
    (tmp_path / "folder.csv").mkdir()
    assert export(folder, "words", tmp_path / "folder.csv", code=1).stderr.startswith("MP718")
    assert [found.name for found in tmp_path.iterdir()] == ["folder.csv"]


def reader_of(value, key="int", kind="map", distribution="partitioned"):
    return ElementReader(0, ElementSchema("e", kind, distribution, "", key, value), 8, 2)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("int", pa.int64()),
        ("float | None", pa.float64()),
        ("datetime", pa.timestamp("us", tz="UTC")),
        ("Decimal", pa.decimal128(38, 18)),
        ("list[list[int | None]]", pa.list_(pa.list_(pa.int64()))),
        ("tuple[int, ...]", pa.list_(pa.int64())),
        ("tuple[int, str]", pa.struct([("_1", pa.int64()), ("_2", pa.string())])),
        ("dict[str, list[int]]", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("set[str]", pa.list_(pa.string())),
        *((text, pa.string()) for text in ("Spot", "list[Spot]", "time", "UUID", "None", "int | str")),
        *((text, pa.string()) for text in ("list", "tuple[]", "dict[int | None, int]", "set[int | None]")),
    ],
)
def test_types_have_columns_of_their_own_or_json(text, column):
    assert entry_columns(reader_of(text))[0].field("value").type == column


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("set[str]", [{"b", "a"}, set()]),
        ("list[int | None]", [[1, None], []]),
        ("float | None", [None, 0.5]),
        ("dict[tuple[int, str], date]", [{(1, "a"): datetime.date(2024, 1, 1)}, {}]),
        ("list[set[int]]", [[{3, 1}], []]),
    ],
)
def test_values_in_columns_are_the_values(text, values):
    entries = [Entry(None, key, value) for key, value in enumerate(values)]
    (batch,) = entry_batches(reader_of(text), entries)
    back = batch.column("value").to_pylist()
    wanted = {
        "set[str]": [["a", "b"], []],
        "dict[tuple[int, str], date]": [[({"_1": 1, "_2": "a"}, datetime.date(2024, 1, 1))], []],
        "list[set[int]]": [[[1, 3]], []],
    }.get(text, values)
    assert back == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [("int", 2**63), ("list[int]", [2**64 - 1]), ("Decimal", Decimal("1e30")), ("date", {"year": 5})],
)
def test_a_value_that_does_not_fit_its_column_is_told(text, value):
    with pytest.raises(StateError) as caught:
        list(entry_batches(reader_of(text), [Entry(None, 1, value)]))
    assert caught.value.code == "MP247"
    assert ".jsonl" in caught.value.hint


def test_many_entries_are_many_batches():
    entries = [Entry(None, number, number) for number in range(BATCH_ROWS + 1)]
    assert [batch.num_rows for batch in entry_batches(reader_of("int"), entries)] == [BATCH_ROWS, 1]


def test_changes_have_old_and_new_values_where_there_are_any():
    reader = reader_of("Spot | None", kind="map", distribution="partial")
    changes = [Change(1, Kind.ADDED, 0, 5, None, {"x": 1}), Change(2, Kind.CHANGED, 0, 5, {"x": 1}, None)]
    changes.append(Change(3, Kind.REMOVED, 1, 5, None, None))
    (batch,) = change_batches(reader, changes)
    assert batch.to_pylist() == [
        {"epoch": 1, "change": "added", "instance": 0, "key": 5, "old": None, "new": '{"x":1}'},
        {"epoch": 2, "change": "changed", "instance": 0, "key": 5, "old": '{"x":1}', "new": "null"},
        {"epoch": 3, "change": "removed", "instance": 1, "key": 5, "old": "null", "new": None},
    ]
    (batch,) = change_batches(reader_of("None", kind="set"), [Change(1, Kind.ADDED, None, 5, None, None)])
    assert batch.to_pylist() == [{"epoch": 1, "change": "added", "key": 5}]
    (batch,) = change_batches(reader_of("int", key="tuple[]", kind="value"), [Change(1, Kind.CHANGED, None, (), 1, 2)])
    assert batch.to_pylist() == [{"epoch": 1, "change": "changed", "old": 1, "new": 2}]

"""What every sink must do: those that are shipped, and the one that examples show. Sinks that do not are found out."""

from __future__ import annotations

import ast

import pytest

from examples.sqlite_sink import SqliteSink, decoded
from millpond import console, foreach_epoch, memory, parquet
from millpond.sinks import Sink, SinkDescription
from millpond.testing.sinks import check_sink


def files_in(sink):
    import pyarrow.parquet as pq

    held = sink.held(None)
    return [row for path in held.glob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]


def test_parquet(tmp_path):
    check_sink(lambda: parquet(tmp_path / "out"), files_in, tmp_path / "work")


def test_memory(tmp_path):
    sink = memory()
    check_sink(lambda: sink, lambda held: held.rows(), tmp_path)


def test_a_function(tmp_path):
    given = []
    sink = foreach_epoch(lambda table, _epoch: given.extend(table.to_pylist()))
    check_sink(lambda: sink, lambda _: given, tmp_path)


def test_the_console(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = []

    def read(_):
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
        cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
        for number, text, amount, nested in cells:
            row = (int(number), None if text == "None" else text, ast.literal_eval(amount), ast.literal_eval(nested))
            shown.append(dict(zip(("n", "text", "amount", "nested"), row, strict=True)))
        return shown

    check_sink(console, read, tmp_path)


def test_sqlite(tmp_path):
    check_sink(lambda: SqliteSink(tmp_path / "replies.db", "my replies"), decoded, tmp_path / "work")


class Faulty(Sink):
    """A sink in memory that keeps its promises, but for what a fault takes away."""

    def __init__(self, fault=None):
        self.fault = fault
        self.files = {}

    def describe(self):
        return SinkDescription("a test", exactly_once=self.fault != "modest")

    def publish(self, token, staged):
        for number, file in enumerate(staged.files):
            key = self._key(file.token, number)
            if key not in self.files or self.fault in {"repeats", "modest"}:
                rows = file.read().to_pylist()
                if self.fault == "loses nulls":
                    rows = [row for row in rows if None not in row.values()]
                self.files.setdefault(key, []).extend(rows)

    def _key(self, token, number):
        if self.fault == "goes by the number of the epoch":
            return (token.epoch, number)
        if self.fault == "goes by the token of the epoch":
            return token.of_file("")
        return token

    def recover(self, token, files):
        if self.fault == "boasts":
            return files
        return () if self.fault == "forgets" else [file for file in files if file in self.files]

    def rows(self):
        return [row for rows in self.files.values() for row in rows]


FAULTS = {
    "repeats": "should not be there",
    "loses nulls": "do not see",
    "goes by the number of the epoch": "do not see",
    "goes by the token of the epoch": "do not see",
    "boasts": "do not see|never published",
    "forgets": "recover tells",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sink_that_breaks_a_promise_is_found_out(tmp_path, fault):
    sink = Faulty(fault)
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check_sink(lambda: sink, Faulty.rows, tmp_path)


@pytest.mark.parametrize("fault", [None, "modest"])
def test_a_sink_that_keeps_what_it_promises_passes(tmp_path, fault):
    sink = Faulty(fault)
    check_sink(lambda: sink, Faulty.rows, tmp_path)

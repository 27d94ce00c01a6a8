"""A sink of your own in a page: a table in SQLite, exactly once.

    job.feed("add", orders, to=SqliteSink("replies.db", "replies"))

Rows and the tokens of their files are written in one transaction, so both are there or neither is: a file whose token
is known is left out. `millpond.testing.sinks.check_sink` tries it in all ways in which an epoch can reach it.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from millpond.sinks import Sink, SinkDescription, Staged, Token
from millpond.testing.sinks import check_sink

_TOKENS = "CREATE TABLE IF NOT EXISTS millpond_tokens (token TEXT PRIMARY KEY)"


class SqliteSink(Sink):
    """A table with a column for each of the replies' columns; lists and structs are kept as JSON."""

    def __init__(self, path: str | Path, table: str) -> None:
        self.path = Path(path).absolute()
        self.table = table

    def describe(self) -> SinkDescription:
        """Describe a place that knows its tokens."""
        return SinkDescription(f"table {self.table} of {self.path.name}", exactly_once=True)

    def publish(self, token: Token, staged: Staged) -> None:  # noqa: ARG002 - files have tokens of their own
        """Insert the rows of files that are not there yet, and their tokens: all or nothing."""
        with self._transaction() as database:
            for file in staged.files:
                known = database.execute("INSERT OR IGNORE INTO millpond_tokens VALUES (?)", [str(file.token)])
                if known.rowcount:
                    rows = file.read()
                    columns = ", ".join(_quoted(name) for name in rows.column_names)
                    database.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(self.table)} ({columns})")
                    values = ", ".join("?" * rows.num_columns)
                    database.executemany(
                        f"INSERT INTO {_quoted(self.table)} ({columns}) VALUES ({values})",
                        ([_cell(value) for value in row.values()] for row in rows.to_pylist()),
                    )

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:  # noqa: ARG002
        """Tell which files are there; SQLite itself has taken back what a crash left unfinished."""
        with self._transaction() as database:
            known = "SELECT 1 FROM millpond_tokens WHERE token = ?"
            return [file for file in files if database.execute(known, [str(file)]).fetchone()]

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the table."""
        with self._transaction() as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [self.table]).fetchone():
                return []
            found = database.execute(f"SELECT * FROM {_quoted(self.table)}")
            return [dict(zip((column[0] for column in found.description), row, strict=True)) for row in found]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute(_TOKENS)
            yield database


def _cell(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bytes | None) else json.dumps(value, default=str)


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def decoded(sink: SqliteSink) -> list[dict[str, Any]]:
    """The rows of the contract as they were fed, with what was nested."""
    return [{**row, "nested": json.loads(row["nested"])} for row in sink.rows()]


def main() -> None:
    """Try the sink: `python -m examples.sqlite_sink`."""
    with tempfile.TemporaryDirectory() as folder:
        sink = SqliteSink(Path(folder) / "replies.db", "replies")
        check_sink(lambda: sink, decoded, Path(folder) / "checkpoints")
        Console().print(f"{len(sink.rows())} rows are in the table, each of them once")


if __name__ == "__main__":
    main()

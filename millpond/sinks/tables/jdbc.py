"""The sink for tables of a database: rows, and the tokens of their files, in one transaction.

Rows go from Arrow to the server as CSV by COPY, which no Python object is made for; the server reads each value as the
type of its column, so a column may be a UUID, a numeric or a jsonb where rows have text.

>>> jdbc("jdbc:postgresql://me:secret@db.example/shop", "replies")
jdbc('postgresql://***@db.example/shop', 'replies')
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millpond.crashpoints import crashpoint
from millpond.errors import SinkError
from millpond.sinks.missing import client
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tables.rows import Mode, check_mode, last_of_each, nested_as_json
from millpond.sinks.tokens import Token
from millpond.storage.addresses import scrubbed, shown_url

if TYPE_CHECKING:
    import pyarrow as pa

_TOKENS = "millpond_tokens"
_CSV_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TableSink(Sink):
    """A table of PostgreSQL, appended to or upserted, exactly once."""

    url: str = field(repr=False)
    table: tuple[str, ...]
    key: tuple[str, ...]

    def __repr__(self) -> str:
        return f"jdbc({shown_url(self.url)!r}, {'.'.join(self.table)!r})"

    def describe(self) -> SinkDescription:
        """Describe a table of a database."""
        return SinkDescription(f"table {'.'.join(self.table)} of {shown_url(self.url)}", exactly_once=True)

    def publish(self, token: Token, staged: Staged) -> None:
        """Write the rows of files that are not there yet, and their tokens: all or nothing."""
        with self._transaction() as database:
            # One after the other: of two drivers with the same files, the second sees what the first has written.
            database.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [token.writer])
            known = self._known(database, token)
            missing = [file for file in staged.files if file.token.file not in known]
            if not missing:
                return
            self._write(database, Staged(tuple(missing)).table())
            database.execute(
                f"DELETE FROM {_TOKENS} WHERE target = %s AND writer = %s AND epoch <> %s",  # noqa: S608  # nosec B608
                [_name(self.table), token.writer, token.epoch],
            )
            for file in missing:
                database.execute(
                    f"INSERT INTO {_TOKENS} VALUES (%s, %s, %s, %s)",  # noqa: S608  # nosec B608
                    [_name(self.table), token.writer, token.epoch, file.token.file],
                )
            crashpoint("table.staged")
        crashpoint("table.committed")

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        """Tell which files are there; the server has taken back what a crash left unfinished."""
        with self._transaction() as database:
            known = self._known(database, token)
        return [file for file in files if file.file in known]

    def _known(self, database: Any, token: Token) -> set[str]:
        made = f"{_TOKENS} (target text, writer text, epoch bigint, file text, PRIMARY KEY (target, writer, file))"
        if database.execute("SELECT to_regclass(%s)", [_TOKENS]).fetchone()[0] is None:
            # Two that make it at once are one too many for PostgreSQL, even so.
            database.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [_TOKENS])
            database.execute(f"CREATE TABLE IF NOT EXISTS {made}")
        found = database.execute(
            f"SELECT file FROM {_TOKENS} WHERE target = %s AND writer = %s",  # noqa: S608  # nosec B608
            [_name(self.table), token.writer],
        )
        return {row[0] for row in found}

    def _write(self, database: Any, rows: pa.Table) -> None:
        target, columns = _name(self.table), ", ".join(map(_quoted, rows.column_names))
        self._make(database, rows, target)
        if not self.key:
            _copy(database, f"{target} ({columns})", rows)
            return
        rows = last_of_each(rows, self.key)
        database.execute(f"CREATE TEMPORARY TABLE millpond_rows (LIKE {target}) ON COMMIT DROP")
        _copy(database, f"millpond_rows ({columns})", rows)
        keys = ", ".join(map(_quoted, self.key))
        others = [_quoted(name) for name in rows.column_names if name not in self.key]
        change = f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "NOTHING"
        database.execute(
            f"INSERT INTO {target} ({columns}) SELECT {columns} FROM millpond_rows "  # noqa: S608  # nosec B608
            f"ON CONFLICT ({keys}) DO {change}"
        )

    def _make(self, database: Any, rows: pa.Table, target: str) -> None:
        """Make the table, unless it is there."""
        if database.execute("SELECT to_regclass(%s)", [target]).fetchone()[0] is None:
            columns = [f"{_quoted(part.name)} {_type(part.type)}" for part in rows.schema]
            keys = [f"PRIMARY KEY ({', '.join(map(_quoted, self.key))})"] if self.key else []
            database.execute(f"CREATE TABLE IF NOT EXISTS {target} ({', '.join(columns + keys)})")

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        psycopg = client("psycopg", "postgres")
        try:
            with psycopg.connect(self.url, connect_timeout=30) as database:
                yield database
        except psycopg.Error as error:
            raise SinkError(
                "MP806",
                f"the database can't take rows for table {'.'.join(self.table)}",
                found=scrubbed(str(error)).strip()[:300],
                hint="the epoch is committed; put the table or the server right, and start again",
            ) from error


def jdbc(url: str, table: str, *, mode: Mode = "append", key: Sequence[str] = ()) -> TableSink:
    """Write replies to a table of PostgreSQL, exactly once: rows and the tokens of their files in one transaction.

    With `mode="upsert"` a row takes the place of the one with the same `key`, of an epoch's rows with one key the last
    does. The table is made if it is not there; lists and structs become jsonb. Tokens stand in a table of their own,
    `millpond_tokens`. Needs `pip install 'millpond[postgres]'` where the driver runs.
    """
    client("psycopg", "postgres")
    address = url.removeprefix("jdbc:")
    if not address.startswith(("postgresql://", "postgres://")):
        raise SinkError(
            "MP807",
            "no table can be written to at this address",
            expected="postgresql://user:password@host/database, with or without jdbc: before it",
            found=shown_url(address)[:120],
            hint="examples/sqlite_sink.py shows a sink for another database in a page",
        )
    return TableSink(address, tuple(table.split(".")), check_mode(mode, key))


def _copy(database: Any, target: str, rows: pa.Table) -> None:
    """Send rows as CSV; nulls are what is not quoted."""
    import pyarrow as pa
    from pyarrow import csv

    buffer = io.BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(_plain(nested_as_json(rows)), pa.PythonFile(buffer, mode="w"), options)
    data = buffer.getbuffer()
    with database.cursor().copy(f"COPY {target} FROM STDIN WITH (FORMAT csv)") as sent:
        for at in range(0, len(data), _CSV_BYTES):
            sent.write(data[at : at + _CSV_BYTES])


def _plain(rows: pa.Table) -> pa.Table:
    """Return columns that CSV has no form for as text that PostgreSQL reads."""
    import pyarrow as pa

    for at, part in enumerate(rows.schema):
        if pa.types.is_binary(part.type) or pa.types.is_large_binary(part.type):
            texts = [None if value is None else f"\\x{value.hex()}" for value in rows.column(at).to_pylist()]
            rows = rows.set_column(at, part.name, pa.array(texts, pa.string()))
        elif pa.types.is_duration(part.type):
            micros = rows.column(at).cast(pa.duration("us")).cast(pa.int64()).cast(pa.string()).to_pylist()
            texts = [None if value is None else f"{value} microseconds" for value in micros]
            rows = rows.set_column(at, part.name, pa.array(texts, pa.string()))
        elif pa.types.is_null(part.type):
            rows = rows.set_column(at, part.name, rows.column(at).cast(pa.string()))
    return rows


def _type(kind: pa.DataType) -> str:
    """Return the type of a column that is made."""
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_nested(kind):
        return "jsonb"
    if is_a.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if is_a.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    known = (
        (is_a.is_boolean, "boolean"),
        (is_a.is_integer, "bigint"),
        (is_a.is_floating, "double precision"),
        (is_a.is_date, "date"),
        (is_a.is_time, "time"),
        (is_a.is_duration, "interval"),
        (is_a.is_binary, "bytea"),
        (is_a.is_large_binary, "bytea"),
    )
    return next((name for fits, name in known if fits(kind)), "text")


def _name(parts: Sequence[str]) -> str:
    return ".".join(map(_quoted, parts))


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))

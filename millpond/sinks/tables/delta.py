"""The sink for Delta tables: an epoch is one commit, with the writer as the application and the epoch as its version.

It uses delta-rs, which needs no connector in Spark, so it runs with every version of it. Files that wait in the table's
own folder are named by the commit as they are; they are written anew, by the driver, where that can't be: on object
stores, for tables that are partitioned or of another schema, and for upserts.

>>> delta("/data/replies").describe().place
'Delta table /data/replies'
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millpond.crashpoints import crashpoint
from millpond.errors import SinkError
from millpond.sinks.missing import client
from millpond.sinks.parquet import ParquetSink, folder_in
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tables.marks import ATTEMPTS, Mark, mark_of, mark_of_staged
from millpond.sinks.tables.rows import Mode, check_mode, last_of_each
from millpond.sinks.tokens import Token
from millpond.storage.addresses import scrubbed, shown_url

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN_WRITER = 2
"""Tables of this version for writers, or below, ask for nothing that files of rows do not have by themselves."""


@dataclass(frozen=True, slots=True)
class DeltaSink(Sink):
    """A Delta table, appended to or upserted, exactly once."""

    url: str
    key: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    def __repr__(self) -> str:
        return f"delta({shown_url(self.url)!r})"

    def describe(self) -> SinkDescription:
        """Describe a table; files of a table in a folder wait in that folder."""
        waits = self._folder if not self.key else None
        return SinkDescription(f"Delta table {shown_url(self.url)}", exactly_once=True, staging=waits)

    def publish(self, token: Token, staged: Staged) -> None:
        """Commit the files as one version of the table, unless it has that already."""
        errors = client("deltalake.exceptions", "delta")
        mark = mark_of_staged(token, staged)
        for attempt in range(ATTEMPTS):
            table = self._open()
            if table is not None and _held(table, token) == mark:
                return
            try:
                self._commit(table, token, staged, mark)
            except errors.CommitFailedError as error:
                # Another commit came first: maybe that of the same files, by another driver.
                if attempt == ATTEMPTS - 1:
                    raise self._refused(error) from error
            except SinkError:
                raise
            except Exception as error:
                if table is None and self._open() is not None:
                    continue  # somebody else has made it meanwhile
                raise self._refused(error) from error
            else:
                crashpoint("table.committed")
                return

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        """Tell whether the table has these files, all of them or none."""
        table = self._open() if files else None
        return files if table is not None and _held(table, token) == mark_of(token, files) else ()

    def held(self, schema: pa.Schema) -> pa.Table | None:
        """Return all rows of the table, if it is there."""
        table = self._open()
        return None if table is None else table.to_pyarrow_table(columns=schema.names).cast(schema)

    @property
    def _folder(self) -> Path | None:
        return None if (folder := folder_in(self.url)) is None else folder.absolute()

    def _open(self) -> Any:
        """Return the table at its last version; None if there is none."""
        deltalake, errors = client("deltalake", "delta"), client("deltalake.exceptions", "delta")
        try:
            return deltalake.DeltaTable(self.url, storage_options=dict(self.options) or None)
        except errors.TableNotFoundError:
            return None
        except (errors.DeltaError, OSError) as error:
            raise self._refused(error) from error

    def _commit(self, table: Any, token: Token, staged: Staged, mark: Mark) -> None:
        deltalake = client("deltalake", "delta")
        ids = [deltalake.Transaction(token.writer, mark.epoch), deltalake.Transaction(_files(token), mark.files)]
        properties = deltalake.CommitProperties(custom_metadata={"millpond": str(token)}, app_transactions=ids)
        if table is not None and not self.key and self._is_named(table, staged):
            ParquetSink(str(self._folder)).publish(token, staged)
            crashpoint("table.staged")
            table.create_write_transaction(_actions(staged), "append", table.schema(), commit_properties=properties)
            return
        rows = last_of_each(staged.table(), self.key) if self.key else staged.table()
        crashpoint("table.staged")
        if table is None or not self.key:
            target, mode = (self.url, "error") if table is None else (table, "append")
            options = dict(self.options) or None
            deltalake.write_deltalake(target, rows, mode=mode, commit_properties=properties, storage_options=options)
            return
        same = " AND ".join(f"target.`{name}` = source.`{name}`" for name in self.key)
        merge = table.merge(rows, same, source_alias="source", target_alias="target", commit_properties=properties)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _is_named(self, table: Any, staged: Staged) -> bool:
        """Say whether the files can be files of the table as they are."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._folder is None or not all(file.path.is_relative_to(self._folder) for file in staged.files):
            return False
        metadata = table.metadata()
        if metadata.partition_columns or table.protocol().min_writer_version > _PLAIN_WRITER:
            return False
        columns = pa.schema(table.schema().to_arrow())
        plain = all(part.nullable and not part.metadata for part in columns)
        checked = any(name.startswith("delta.constraints") for name in metadata.configuration)
        return (
            plain and not checked and all(_types(pq.read_schema(file.path)) == _types(columns) for file in staged.files)
        )

    def _refused(self, error: Exception) -> SinkError:
        return SinkError(
            "MP808",
            f"the Delta table at {shown_url(self.url)} can't take these rows",
            found=scrubbed(str(error))[:300],
            hint="the epoch is committed; put the table right, and start again",
        )


def delta(
    path: str | Path, *, mode: Mode = "append", key: Sequence[str] = (), options: Mapping[str, str] | None = None
) -> DeltaSink:
    """Write replies to a Delta table, exactly once: an epoch is one commit, and the commit names its writer and epoch.

    With `mode="upsert"` a row takes the place of the one with the same `key`, of an epoch's rows with one key the last
    does. The table is made if it is not there. `path` is a folder that tasks share, or an address of an object store
    (s3://, gs://, az://); `options` are those of delta-rs for it. Needs `pip install 'millpond[delta]'` where the
    driver runs.
    """
    client("deltalake", "delta")
    url = str(path.absolute() if isinstance(path, Path) else path)
    folder = folder_in(url)
    return DeltaSink(url if folder is None else str(folder.absolute()), check_mode(mode, key), dict(options or {}))


def _files(token: Token) -> str:
    return f"{token.writer}:files"


def _held(table: Any, token: Token) -> Mark | None:
    epoch, files = table.transaction_version(token.writer), table.transaction_version(_files(token))
    return None if epoch is None or files is None else Mark(epoch, files)


def _actions(staged: Staged) -> list[Any]:
    action = client("deltalake.transaction", "delta").AddAction
    return [
        action(
            path=file.token.file,
            size=file.path.stat().st_size,
            partition_values={},
            modification_time=int(file.path.stat().st_mtime * 1000),
            data_change=True,
            stats=json.dumps({"numRecords": file.rows}),
        )
        for file in staged.files
    ]


def _types(schema: Any) -> list[tuple[str, Any]]:
    return [(part.name, part.type) for part in schema]

"""The sink for Iceberg tables: an epoch is one commit of the catalog, which also sets a property that names it.

It uses pyiceberg, which needs no connector in Spark, so it runs with every version of it. The token of the epoch is a
property of the snapshot, for people; the property of the table is what a restart reads, for snapshots expire.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millpond.crashpoints import crashpoint
from millpond.errors import SinkError
from millpond.sinks.missing import client
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tables.marks import ATTEMPTS, Mark, mark_of, mark_of_staged
from millpond.sinks.tables.rows import Mode, check_mode, last_of_each
from millpond.sinks.tokens import Token
from millpond.storage.addresses import scrubbed

if TYPE_CHECKING:
    import pyarrow as pa

_RETRIES = "commit.retry.num-retries"


@dataclass(frozen=True, slots=True)
class IcebergSink(Sink):
    """An Iceberg table, appended to or upserted, exactly once."""

    table: str
    catalog: str
    key: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    def __repr__(self) -> str:
        return f"iceberg({self.table!r}, {self.catalog!r})"

    def describe(self) -> SinkDescription:
        """Describe a table of a catalog."""
        return SinkDescription(f"Iceberg table {self.table} of catalog {self.catalog}", exactly_once=True)

    def publish(self, token: Token, staged: Staged) -> None:
        """Commit the rows to the table, unless it has them already."""
        known = client("pyiceberg.exceptions", "iceberg")
        again = (
            known.CommitFailedException,
            known.ValidationException,
            known.TableAlreadyExistsError,
            known.NamespaceAlreadyExistsError,
        )
        mark = mark_of_staged(token, staged)
        for attempt in range(ATTEMPTS):
            try:
                table = self._open() or self._made(staged)
                if _held(table, token) == mark:
                    return
                self._commit(table, token, staged, mark)
            except again as error:
                # Another commit came first: maybe that of the same rows, by another driver.
                if attempt == ATTEMPTS - 1:
                    raise self._refused(error) from error
            except SinkError:
                raise
            except Exception as error:
                raise self._refused(error) from error
            else:
                crashpoint("table.committed")
                return

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        """Tell whether the table has these files, all of them or none."""
        try:
            table = self._open() if files else None
        except Exception as error:
            raise self._refused(error) from error
        return files if table is not None and _held(table, token) == mark_of(token, files) else ()

    def held(self, schema: pa.Schema) -> pa.Table | None:
        """Return all rows of the table, if it is there."""
        table = self._open()
        return None if table is None else table.scan(selected_fields=tuple(schema.names)).to_arrow().cast(schema)

    def _open(self) -> Any:
        known = client("pyiceberg.exceptions", "iceberg")
        try:
            return self._catalog().load_table(self.table)
        except (known.NoSuchTableError, known.NoSuchNamespaceError):
            return None

    def _made(self, staged: Staged) -> Any:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        return catalog.create_table_if_not_exists(self.table, schema=staged.files[0].read().schema)

    def _catalog(self) -> Any:
        return client("pyiceberg.catalog", "iceberg").load_catalog(self.catalog, **self.options)

    def _commit(self, table: Any, token: Token, staged: Staged, mark: Mark) -> None:
        # Left to itself it would commit the same rows again on top of whatever came first: we look before that.
        quiet = {**table.metadata.properties, _RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": quiet})
        named = {"millpond.token": str(token)}
        with table.transaction() as changes:
            if self.key:
                rows = last_of_each(staged.table(), self.key)
                changes.upsert(rows, join_cols=list(self.key), snapshot_properties=named)
            else:
                changes.append(staged.table(), snapshot_properties=named)
            told = {"writer": token.writer, "epoch": mark.epoch, "files": mark.files}
            changes.set_properties({_property(token): json.dumps(told)})
            crashpoint("table.staged")

    def _refused(self, error: Exception) -> SinkError:
        return SinkError(
            "MP809",
            f"the Iceberg table {self.table} can't take these rows",
            found=f"{type(error).__name__}: {scrubbed(str(error))}"[:300],
            hint="the epoch is committed; put the table or the catalog right, and start again",
        )


def iceberg(
    table: str,
    *,
    catalog: str = "default",
    mode: Mode = "append",
    key: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> IcebergSink:
    """Write replies to an Iceberg table, exactly once: rows and a property that names the epoch in one commit.

    With `mode="upsert"` a row takes the place of the one with the same `key`, of an epoch's rows with one key the last
    does. The table, as `namespace.name`, is made if it is not there. `catalog` is one that pyiceberg knows, by its file
    of settings or by `options`, such as `{"type": "rest", "uri": ...}`. Needs `pip install 'millpond[iceberg]'` where
    the driver runs.
    """
    client("pyiceberg", "iceberg")
    return IcebergSink(table, catalog, check_mode(mode, key), dict(options or {}))


def _property(token: Token) -> str:
    return f"millpond.{hashlib.sha256(token.writer.encode()).hexdigest()[:16]}"


def _held(table: Any, token: Token) -> Mark | None:
    told = json.loads(table.properties.get(_property(token), "null"))
    return None if told is None or told["writer"] != token.writer else Mark(told["epoch"], told["files"])

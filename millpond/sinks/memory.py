"""The memory sink: rows in the process of the driver.

>>> import tempfile
>>> from pathlib import Path
>>> import pyarrow as pa
>>> import pyarrow.parquet as pq
>>> from millpond.sinks.protocol import StagedFile
>>> sink, token = memory(), Token("uuid", (), "add.replies", 1)
>>> with tempfile.TemporaryDirectory() as folder:
...     pq.write_table(pa.table({"reply": [1, 2]}), path := Path(folder) / "a.parquet")
...     sink.publish(token, Staged((StagedFile(token.of_file("a.parquet"), path, rows=2),)))
>>> sink.rows()
[{'reply': 1}, {'reply': 2}]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MemorySink(Sink):
    """Rows in this process, for tests and notebooks; an epoch that comes again replaces the first."""

    _epochs: dict[Token, list[dict[str, Any]]] = field(default_factory=dict)

    def describe(self) -> SinkDescription:
        """Describe a place that is gone with the process."""
        return SinkDescription("memory")

    def publish(self, token: Token, staged: Staged) -> None:
        """Take the rows of an epoch; a second time replaces the first."""
        self._epochs[token] = staged.table().to_pylist()

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows so far, in the order of the epochs."""
        in_order = sorted(self._epochs, key=lambda token: (token.epoch, token))
        return [row for token in in_order for row in self._epochs[token]]

    def held(self, schema: pa.Schema) -> pa.Table:
        """Return all rows as a table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows(), schema=schema)


def memory() -> MemorySink:
    """Keep replies in this process: `sink.rows()` gives them as dicts. For tests and notebooks."""
    return MemorySink()

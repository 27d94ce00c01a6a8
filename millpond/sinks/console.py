"""The console sink: the first rows of each epoch, as a table in the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.checkpoint.read.plain import printable
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token


@dataclass(frozen=True, slots=True)
class ConsoleSink(Sink):
    """Prints the first rows of each epoch; at least once."""

    limit: int

    def describe(self) -> SinkDescription:
        """Describe a place that holds nothing."""
        return SinkDescription("console")

    def publish(self, token: Token, staged: Staged) -> None:
        """Show the first rows of an epoch."""
        # Here, because `import millpond` need not load it.
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = staged.table()
        shown = Table(title=Text(f"{token.sink}, epoch {token.epoch}: {table.num_rows} rows"))
        for name in table.column_names:
            shown.add_column(Text(printable(name)))
        for row in table.slice(0, self.limit).to_pylist():
            shown.add_row(*(Text(printable(str(value))) for value in row.values()))
        Console().print(shown)


def console(limit: int = 20) -> ConsoleSink:
    """Print the first `limit` replies of each epoch; an epoch may be printed again after a crash."""
    return ConsoleSink(limit)

"""What a person sees while epochs go by: one live line in a terminal, a line now and then elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from millpond.checkpoint.read.plain import printable
from millpond.checkpoint.records.manifest import Loss
from millpond.clock import Clock, SystemClock
from millpond.engine.plan import Level
from millpond.spark.reporting.html import Notebook, epoch_html
from millpond.spark.reporting.reports import EpochReport

REPLAY_FACTOR = 4
REPLAY_BYTES_MIN = 16 * 1024 * 1024
"""From here on it pays to think about another durability."""

LINE_SECONDS = 10
"""Logs of a container get a line at most so often."""


class Progress:
    """Shows epochs as they commit: number, rows, speed, state size, time of the checkpoint.

    In a terminal, one line that is written over again; in a notebook, a table; elsewhere a line for an epoch, but not
    more than one in ten seconds. No thread, nothing to clean up if the process dies.
    """

    def __init__(self, title: str, *, shown: bool | None = None, clock: Clock | None = None) -> None:
        self._console = Console(stderr=True)
        self._clock = clock or SystemClock()
        self._shown = shown is not False
        self._live = self._console.is_terminal or bool(shown)
        self._notebook = Notebook.here() if self._shown else None
        self._due: float | None = None
        self._tells = shown is None
        self._title = title
        self._rows = 0
        self._bad = 0
        self._late = 0
        self._open = False

    def epoch(self, report: EpochReport) -> None:
        """Show an epoch."""
        self._rows += report.rows
        self._bad += report.bad_rows
        self._late += report.late_rows
        for advice in report.advice:
            self._advise(advice)
        if not self._shown:
            return
        if self._notebook is not None:
            self._notebook.show(epoch_html(report, self._title))
        elif self._live:
            self._over(self._cells(report))
        elif self._due is None or self._clock.ticks() >= self._due:
            self._due = self._clock.ticks() + LINE_SECONDS
            self._say(" · ".join(self._cells(report)))

    def _cells(self, report: EpochReport) -> list[str]:
        cells = [
            f"epoch {report.epoch}",
            f"{self._rows:,} rows",
            f"{report.rows_per_second:,.0f} rows/s",
            f"{report.entries:,} state entries",
            f"checkpoint {report.commit_seconds * 1000:.0f} ms",
        ]
        if report.queued_rows:
            cells.append(f"{report.queued_rows:,} rows wait")
        if report.components:
            cells.append(f"{report.components:,} components, the largest has {report.largest_share:.0%} of the rows")
        if report.executors > 1:
            cells.append(f"{report.executors} executors, {report.local_hits} partitions in place")
        if moved := report.caught_up + report.restored:
            cells.append(f"{moved} moved in {report.restore_seconds:.1f} s")
        if report.groups_moved:
            cells.append(f"{report.groups_moved} key groups on {report.partitions} partitions moved")
        if report.hot_keys:
            hottest = report.hot_keys[0]
            cells.append(f"key {hottest.key} has {hottest.share:.0%} of the rows of {hottest.task}")
        if report.dirty_keys or report.saved_keys:
            skipped = f", {report.skipped_saves:,} skipped" if report.skipped_saves else ""
            cells.append(f"{report.dirty_keys:,} keys dirty, {report.saved_keys:,} saved{skipped}")
        if report.watermark is not None:
            cells.append(f"watermark {report.watermark:%Y-%m-%d %H:%M:%S}")
        if self._late:
            cells.append(f"{self._late:,} late rows")
        if self._bad:
            cells.append(f"{self._bad:,} bad rows")
        return cells

    def _over(self, cells: list[str]) -> None:
        """Write over the line before."""
        line = Text(printable(f"{self._title}  {' · '.join(cells)}"), no_wrap=True, overflow="ellipsis")
        line.pad_right(max(0, self._console.width - line.cell_len - 1))
        self._console.print(line, end="\r")
        self._open = True

    def _advise(self, advice: str) -> None:
        """Tell what was decided, to whoever may read it, unless nothing at all is to be shown."""
        if self._shown or self._tells:
            self._say(advice)

    def replayed(self, done: int, total: int) -> None:
        """Tell that epochs are computed again before the run begins."""
        if self._shown and self._live:
            self._say(f"computing epoch {done + 1} of {total} again from its input")

    def lost(self, loss: Loss) -> None:
        """Tell what was lost with a host: to whoever may read it, unless nothing at all is to be shown."""
        if self._shown or self._tells:
            self._say(f"{loss} (docs/DURABILITY.md)")

    def suggest_level(self, level: Level, bytes_in: int, bytes_changed: int) -> None:
        """Say if logging rows would write much less than logging changes does, or the other way round."""
        sizes = {Level.EXACTLY_ONCE: bytes_changed, Level.REPLAY: bytes_in}
        if level not in sizes or not (self._shown and self._live):
            return
        other = Level.REPLAY if level is Level.EXACTLY_ONCE else Level.EXACTLY_ONCE
        if sizes[level] > max(REPLAY_BYTES_MIN, REPLAY_FACTOR * sizes[other]):
            told = f"{bytes_in / 1e6:,.0f} MB of rows changed {bytes_changed / 1e6:,.0f} MB of state"
            self._say(f'{told}: Durability("{other.value}") would write less (docs/DURABILITY.md)')

    def _say(self, what: str) -> None:
        # As it is: brackets of a key or a type are no markup.
        self._console.print(Text(printable(f"{self._title}: {what}")), soft_wrap=True)

    def stop(self) -> None:
        """Leave the last line on the screen."""
        if self._open:
            self._console.print()
            self._open = False

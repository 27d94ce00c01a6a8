"""What a person sees while epochs go by: one live line in a terminal, nothing elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from millpond.epochs.checkpoint import EpochOutcome
from millpond.runtime.messages import BYTES_IN, Control

REPLAY_FACTOR = 4
REPLAY_BYTES_MIN = 16 * 1024 * 1024
"""From here on it pays to think about another durability."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One committed epoch in figures.

    `snapshot_epoch` is the epoch whose whole state was written last: what a recovery begins with. `bytes_in` is how
    large the rows are, `bytes_changed` the state that they changed.
    Rows over several keys run component by component: `components` of the rows that were looked at, and the share of
    the largest one in them, which bounds the time.
    """

    epoch: int
    rows: int
    bad_rows: int
    replies: int
    entries: int
    seconds: float
    commit_seconds: float
    task_seconds: dict[str, float]
    snapshot_epoch: int = 0
    bytes_in: int = 0
    bytes_changed: int = 0
    aborted: int = 0
    components: int = 0
    largest_share: float = 0.0

    @property
    def rows_per_second(self) -> float:
        """How fast this epoch went."""
        return self.rows / self.seconds if self.seconds else 0.0


def report_of(outcome: EpochOutcome, controls: list[Control], seconds: float) -> EpochReport:
    """Put an epoch into figures."""
    counters = outcome.manifest.counters
    timings = outcome.timings
    spent: dict[str, float] = {}
    for control in controls:
        for name, took in control.spent.items():
            spent[name] = max(spent.get(name, 0.0), took)
    return EpochReport(
        epoch=outcome.manifest.epoch,
        rows=_sum(counters, "fed."),
        bad_rows=_sum(counters, "bad."),
        replies=_sum(counters, "replies."),
        entries=counters.get("total.entries", 0),
        seconds=seconds,
        commit_seconds=timings.segment_s + timings.commit_s + timings.publish_s,
        task_seconds=spent,
        snapshot_epoch=outcome.manifest.snapshot_epoch,
        bytes_in=counters.get(BYTES_IN, 0),
        bytes_changed=sum(state.file.size_bytes for state in outcome.manifest.deltas[-1].files),
        aborted=_sum(counters, "aborted."),
        components=counters.get("gathered.components", 0),
        largest_share=counters.get("gathered.largest", 0) / (counters.get("gathered.surveyed", 0) or 1),
    )


def _sum(counters: dict[str, int], prefix: str) -> int:
    return sum(count for name, count in counters.items() if name.startswith(prefix))


class Progress:
    """Shows epochs as they commit: number, rows, speed, state size, time of the checkpoint.

    One line, written over again: no thread, nothing to clean up if the process dies.
    """

    def __init__(self, title: str, *, shown: bool | None = None) -> None:
        self._console = Console(stderr=True)
        self._shown = self._console.is_terminal if shown is None else shown
        self._title = title
        self._rows = 0
        self._bad = 0
        self._open = False

    def epoch(self, report: EpochReport) -> None:
        """Show an epoch."""
        self._rows += report.rows
        self._bad += report.bad_rows
        if not self._shown:
            return
        cells = [
            f"epoch {report.epoch}",
            f"{self._rows:,} rows",
            f"{report.rows_per_second:,.0f} rows/s",
            f"{report.entries:,} state entries",
            f"checkpoint {report.commit_seconds * 1000:.0f} ms",
        ]
        if report.components:
            cells.append(f"{report.components:,} components, the largest has {report.largest_share:.0%} of the rows")
        if self._bad:
            cells.append(f"{self._bad:,} bad rows")
        line = Text(f"{self._title}  {' · '.join(cells)}", no_wrap=True, overflow="ellipsis")
        line.pad_right(max(0, self._console.width - line.cell_len - 1))
        self._console.print(line, end="\r")
        self._open = True

    def replayed(self, done: int, total: int) -> None:
        """Tell that epochs are computed again before the run begins."""
        if self._shown:
            self._console.print(f"{self._title}: computing epoch {done + 1} of {total} again from its input")

    def suggest_level(self, bytes_in: int, bytes_changed: int) -> None:
        """Say if logging rows would write much less than logging changes does."""
        if self._shown and bytes_changed > max(REPLAY_BYTES_MIN, REPLAY_FACTOR * bytes_in):
            told = f"{bytes_in / 1e6:,.0f} MB of rows changed {bytes_changed / 1e6:,.0f} MB of state"
            self._console.print(f'{self._title}: {told}: durability="replay" would write less (docs/DURABILITY.md)')

    def stop(self) -> None:
        """Leave the last line on the screen."""
        if self._open:
            self._console.print()
            self._open = False

"""What a person sees while epochs go by: one live line in a terminal, nothing elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from rich.console import Console
from rich.text import Text

from millpond.checkpoint.read.plain import printable
from millpond.checkpoint.records.manifest import Loss
from millpond.checkpoint.records.times import Times
from millpond.engine.compute import Committed
from millpond.engine.elastic.observed import HotKey, TaskLoad
from millpond.engine.elastic.rebalancer import Rebalanced
from millpond.engine.messages import BYTES_IN, Found
from millpond.engine.plan import Level
from millpond.program.semantics.epoch_time import moment_of

REPLAY_FACTOR = 4
REPLAY_BYTES_MIN = 16 * 1024 * 1024
"""From here on it pays to think about another durability."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One committed epoch in figures.

    `snapshot_epoch` is the epoch whose whole state was written last: what a recovery begins with. `bytes_in` is how
    large the rows are, `bytes_changed` the state that they changed.
    With event time, `late_rows` came too late, and `watermark` holds after the epoch.
    Rows over several keys run component by component: `components` of the rows that were looked at, and the share of
    the largest one in them, which bounds the time.
    `local_hits` partitions found their state on the executor that they ran on. Others were elsewhere before:
    `caught_up` ones found an old copy and read what it lacked from the checkpoint, `restored` ones had no copy; one of
    them waited up to `restore_seconds`. `executors` is how many took part.
    `groups_moved` key groups have another owner than in the epoch before. `loads` are of each task element, by key
    group and partition; `skew` is how much more rows the fullest partition had than an even share. `hot_keys` have many
    rows of late. `advice` is what was decided about owners, and what a program can do about keys. `queued_rows` were
    left in the sources by the batch before, None if no source tells.
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
    late_rows: int = 0
    watermark: datetime | None = None
    components: int = 0
    largest_share: float = 0.0
    local_hits: int = 0
    caught_up: int = 0
    restored: int = 0
    restore_seconds: float = 0.0
    executors: int = 0
    dirty_keys: int = 0
    dirty_updates: int = 0
    saved_keys: int = 0
    saved_bytes: int = 0
    skipped_saves: int = 0
    partitions: int = 0
    groups_moved: int = 0
    skew: float = 1.0
    loads: tuple[TaskLoad, ...] = field(default=(), repr=False)
    hot_keys: tuple[HotKey, ...] = ()
    advice: tuple[str, ...] = ()
    queued_rows: int | None = None

    def rebalanced(self, told: Rebalanced) -> EpochReport:
        """Return the same epoch, with what the rebalancer says of it."""
        return replace(self, **{each.name: getattr(told, each.name) for each in fields(told)})

    @property
    def rows_per_second(self) -> float:
        """How fast this epoch went."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a bounded run did; `epochs` is empty when all of it had been committed before.

    `loss` is what was lost of state with bounded loss with a host before it, if anything was.
    """

    epochs: tuple[EpochReport, ...]
    epoch: int
    loss: Loss | None = None

    @property
    def rows(self) -> int:
        """Rows that were fed."""
        return sum(epoch.rows for epoch in self.epochs)


def report_of(committed: Committed) -> EpochReport:
    """Put an epoch into figures."""
    outcome = committed.outcome
    counters, timings = outcome.manifest.counters, outcome.timings
    spent: dict[str, float] = {}
    for control in committed.controls:
        for name, took in control.spent.items():
            spent[name] = max(spent.get(name, 0.0), took)
    if committed.consolidation_s is not None:
        spent["consolidation"] = committed.consolidation_s
    seen = [control.seen for control in committed.controls]
    return EpochReport(
        epoch=outcome.manifest.epoch,
        rows=_sum(counters, "fed."),
        bad_rows=_sum(counters, "bad."),
        replies=_sum(counters, "replies."),
        entries=counters.get("total.entries", 0),
        seconds=committed.seconds,
        commit_seconds=timings.segment_s + timings.commit_s + timings.publish_s,
        task_seconds=spent,
        snapshot_epoch=outcome.manifest.snapshot_epoch,
        bytes_in=counters.get(BYTES_IN, 0),
        bytes_changed=sum(state.file.size_bytes for state in outcome.manifest.deltas[-1].files),
        aborted=_sum(counters, "aborted."),
        late_rows=_sum(counters, "late."),
        watermark=watermark_of(outcome.manifest.times),
        components=counters.get("gathered.components", 0),
        largest_share=counters.get("gathered.largest", 0) / (counters.get("gathered.surveyed", 0) or 1),
        dirty_keys=counters.get("lazy.dirty_keys", 0),
        dirty_updates=counters.get("lazy.dirty_updates", 0),
        saved_keys=counters.get("lazy.saved_keys", 0),
        saved_bytes=counters.get("lazy.saved_bytes", 0),
        skipped_saves=counters.get("lazy.skipped", 0),
        local_hits=sum(one.found is Found.LOCAL for one in seen),
        caught_up=sum(one.found is Found.CAUGHT_UP for one in seen),
        restored=sum(one.found is Found.RESTORED for one in seen),
        restore_seconds=max((one.restore_s for one in seen), default=0.0),
        executors=len({one.where for one in seen if one.where}) or int(bool(seen)),
    )


def watermark_of(times: Times) -> datetime | None:
    """Return the watermark that holds after an epoch; None if there is none yet, or no event time."""
    event = times.event
    return None if event is None or event.watermark_us is None else moment_of(event.watermark_us)


def _sum(counters: dict[str, int], prefix: str) -> int:
    return sum(count for name, count in counters.items() if name.startswith(prefix))


class Progress:
    """Shows epochs as they commit: number, rows, speed, state size, time of the checkpoint.

    One line, written over again: no thread, nothing to clean up if the process dies.
    """

    def __init__(self, title: str, *, shown: bool | None = None) -> None:
        self._console = Console(stderr=True)
        self._shown = self._console.is_terminal if shown is None else shown
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
        if self._shown:
            self._say(f"computing epoch {done + 1} of {total} again from its input")

    def lost(self, loss: Loss) -> None:
        """Tell what was lost with a host: to whoever may read it, unless nothing at all is to be shown."""
        if self._shown or self._tells:
            self._say(f"{loss} (docs/DURABILITY.md)")

    def suggest_level(self, level: Level, bytes_in: int, bytes_changed: int) -> None:
        """Say if logging rows would write much less than logging changes does, or the other way round."""
        sizes = {Level.EXACTLY_ONCE: bytes_changed, Level.REPLAY: bytes_in}
        if level not in sizes or not self._shown:
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

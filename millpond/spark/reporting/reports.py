"""What epochs and runs did, in figures: for whoever asks the job, for the terminal, notebooks, logs and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from millpond.checkpoint.records.manifest import Loss, Manifest
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.records.times import Times
from millpond.engine.compute import Committed
from millpond.engine.elastic.observed import HotKey, TaskLoad
from millpond.engine.elastic.rebalancer import Rebalanced
from millpond.engine.messages import BYTES_IN, Found
from millpond.engine.sequence.cutting import PARTS
from millpond.engine.sequence.rows import IN_SEQUENCE
from millpond.program.semantics.epoch_time import moment_of
from millpond.spark.reporting.html import epoch_html, run_html

WAYS = ("keyed", "gathered", "in sequence")
"""How rows are run (docs/EXACTNESS.md)."""


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
    `ways` is how many rows ran in which way: keyed, gathered, in sequence; an epoch that was cut around a few of the
    last kind ran in several `parts`. `checkpoint_bytes` is how large the files
    are that hold the state after the epoch. `batch` is the number of Spark's batch, as in its
    `StreamingQueryProgress`; None for epochs that are none.
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
    ways: dict[str, int] = field(default_factory=dict)
    parts: int = 1
    checkpoint_bytes: int = 0
    batch: int | None = None

    def rebalanced(self, told: Rebalanced) -> EpochReport:
        """Return the same epoch, with what the rebalancer says of it."""
        return replace(self, **{each.name: getattr(told, each.name) for each in fields(told)})

    @property
    def rows_per_second(self) -> float:
        """How fast this epoch went."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def snapshot_age(self) -> int:
        """How many epochs were committed since the last snapshot: what a recovery reads besides it."""
        return self.epoch - self.snapshot_epoch

    def _repr_html_(self) -> str:
        return epoch_html(self)


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

    def _repr_html_(self) -> str:
        return run_html(self)


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
    rows = _sum(counters, "fed.")
    return EpochReport(
        epoch=outcome.manifest.epoch,
        rows=rows,
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
        ways=_ways(counters, rows),
        parts=counters.get(PARTS, 1),
        checkpoint_bytes=_size(outcome.manifest),
        batch=outcome.manifest.offer.number if isinstance(outcome.manifest.offer, Batch) else None,
    )


def watermark_of(times: Times) -> datetime | None:
    """Return the watermark that holds after an epoch; None if there is none yet, or no event time."""
    event = times.event
    return None if event is None or event.watermark_us is None else moment_of(event.watermark_us)


def _sum(counters: dict[str, int], prefix: str) -> int:
    return sum(count for name, count in counters.items() if name.startswith(prefix))


def _ways(counters: dict[str, int], rows: int) -> dict[str, int]:
    """Return the rows of each way; what is neither gathered nor in sequence is keyed."""
    sequence = min(rows, counters.get(IN_SEQUENCE, 0))
    gathered = min(rows - sequence, counters.get("gathered.surveyed", 0))
    return dict(zip(WAYS, (rows - gathered - sequence, gathered, sequence), strict=True))


def _size(manifest: Manifest) -> int:
    files = (*manifest.snapshot, *(state for delta in manifest.deltas for state in delta.files))
    return sum(state.file.size_bytes for state in files)

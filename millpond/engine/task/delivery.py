"""Where results go: replies and dead letters to files, everything else as messages to the next task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from millpond.checkpoint.records.manifest import OutputFile
from millpond.compiler.compiled import CompiledTask, Done, Fanned, Reply
from millpond.engine.arrowtypes import to_arrow
from millpond.engine.failures import UnfitError, text_of
from millpond.engine.messages import Outbox
from millpond.engine.plan import EpochPlan, Order, ProgramPlan
from millpond.engine.publish.deadletters import BadRow, letter_table
from millpond.engine.publish.replies import reply_table, stage, staging_mark, taken_apart, unfolded
from millpond.engine.task.columns import Picked, Rows
from millpond.engine.task.intake import Work
from millpond.engine.time.laterows import LateRows
from millpond.errors import RowError
from millpond.graph.model import Dispatch
from millpond.ids import KeyGroup, PartitionId
from millpond.keygroups import hash_ints
from millpond.state.codec.typenames import type_text
from millpond.state.codec.wire import encode_message
from millpond.state.containers.value import THE_KEY
from millpond.storage.contract import Storage


class Refused:
    """The result of a row that the program itself refused, with its reason."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class NoParcel(Exception):  # noqa: N818 - whoever hands results over catches it
    """The result of the row at a place can't be handed over, and why."""

    def __init__(self, at: int, error: UnfitError) -> None:
        super().__init__(at, error)
        self.at = at
        self.error = error


@dataclass(slots=True)
class Parcel:
    """What is made of the results of some rows: it has not left yet, and may still be thrown away.

    `fed` is how many rows came in with them, if these are of a first task.
    """

    work: Work
    rows: Picked
    fed: int | None
    aborted: int | None = None
    replied: int = 0
    replies: pa.Table | None = None
    messages: list[dict[str, list[Any]]] = field(default_factory=list)


REPLY_BYTES_MAX: Final = 32 * 1024 * 1024
"""As many replies a task holds before it stages them, if its rows come as a stream."""


class Delivery:
    """The results of one task of a step."""

    def __init__(
        self, plan: ProgramPlan, epoch: EpochPlan, step: int, partition: PartitionId, portion: int = 0
    ) -> None:
        self._plan = plan
        self._watermark = epoch.watermark
        self._epoch = epoch.epoch
        self._place = f"{staging_mark(epoch.epoch, epoch.parent.uuid)}-{epoch.earlier.steps + step:02}-{partition:05}"
        if portion:
            self._place += f"-{portion:03}"
        self._replies: dict[int, list[pa.Table]] = {}
        self._staged: list[OutputFile] = []
        self._dead: dict[int, list[BadRow]] = {}
        self._late: list[LateRows] = []
        self._owners = plan.layout.owners()
        self._carriers = plan.layout.carriers()
        self.outbox = Outbox()
        self.counters: Counter[str] = Counter()
        self.highest_us: dict[str, int] = {}
        self.heard: set[str] = set()

    def bad_row(self, bad: BadRow) -> None:
        """Count a bad row, and keep it for the dead letters if the feed has them."""
        self.count_bad(bad.feed)
        if self._plan.feeds[bad.feed].dead_letters is not None:
            self._dead.setdefault(bad.feed, []).append(bad)

    def count_bad(self, feed: int) -> None:
        """Count a bad row of a feed that has no dead letters."""
        self._count("bad", feed, 1)

    def _count(self, kind: str, feed: int, rows: int) -> None:
        if rows:
            name = self._plan.feeds[feed].name
            self.counters[f"{kind}.{name}"] += rows
            self.heard.add(name)

    def late_rows(self, late: LateRows) -> None:
        """Count late rows, and keep them for the sink that takes them in place of the entry point."""
        self._count("late", late.feed, late.table.num_rows)
        self._tell_time(late.feed, late.highest_us)
        self._late.append(late)

    def _tell_time(self, feed: int, highest_us: int) -> None:
        name = self._plan.feeds[feed].name
        self.highest_us[name] = max(highest_us, self.highest_us.get(name, highest_us))

    def _note_times(self, work: Work, rows: Picked) -> None:
        """Tell how far the event times of rows have come, and count those that are late and run all the same."""
        if work.happened is None or not len(happened := work.happened[slice(None) if rows is None else rows]):
            return
        feed = self._plan.feeds[work.feed]
        assert feed.time is not None, feed.name
        self._tell_time(work.feed, int(happened.max()))
        self._count("late", work.feed, int((happened < self._watermark.bound_us(feed.time)).sum()))

    def pack(self, work: Work, rows: Picked, results: list[Any], lane: int | None) -> Parcel:
        """Make of the results of some rows of a work, in the order in which they ran, what leaves the task.

        Raises `NoParcel` for the first row whose result can't leave.
        """
        first = work.task.index == 0 and (work.task.dispatch is not Dispatch.ONE_TO_ALL or lane == 0)
        parcel = Parcel(work, rows, len(results) if first else None)
        if work.task.last:
            self._reply(parcel, work, rows, results, range(len(results)))
            return parcel
        picked = rows if isinstance(rows, np.ndarray) else np.arange(len(work))[rows or slice(None)]
        sorted_out = _Sorted.of(results)
        unfit: list[NoParcel] = []
        if sorted_out.replies and (work.task.dispatch is not Dispatch.ONE_TO_ALL or lane == 0):
            at, values = zip(*sorted_out.replies, strict=True)
            try:
                self._reply(parcel, work, picked[list(at)], list(values), at)
            except NoParcel as one:
                unfit.append(one)
        self._send_on(parcel, work, picked, sorted_out, lane, unfit)
        return parcel

    def fit_plainly(self, work: Work, results: list[Any]) -> bool:
        """Say whether results can leave as can be seen at once: it is asked every few rows where rows raise."""
        feed = self._plan.feeds[work.feed]
        point = self._plan.program.entries[feed.entry].point
        if not work.task.last:
            return not results
        return not point.replies or feed.replies is None or _fit_plainly(results, point.returns)

    def check(self, work: Work, rows: Rows, results: list[Any], lane: int | None) -> None:
        """Raise `NoParcel` for the first row whose result can't leave."""
        feed = self._plan.feeds[work.feed]
        point = self._plan.program.entries[feed.entry].point
        if not work.task.last:
            self.pack(work, rows, results, lane)
        elif point.replies and feed.replies is not None:
            told = [None if value is Done or type(value) is Refused else value for value in results]
            _converted(told, feed.entry, point.returns, range(len(told)))

    def pack_tried(self, work: Work, rows: Rows, results: list[Any], lane: int | None) -> Parcel:
        """Make messages of the results of rows that are only tried: nobody sees anything else of them."""
        parcel = Parcel(work, rows, None)
        if not work.task.last:
            self._send_on(parcel, work, rows, _Sorted.of(results), lane, [])
        return parcel

    def hand_over(self, parcel: Parcel) -> None:
        """Let a parcel leave: replies to their files, messages to the outbox."""
        work, name = parcel.work, self._plan.feeds[parcel.work.feed].name
        if parcel.fed is not None:
            self._count("fed", work.feed, parcel.fed)
            self._note_times(work, parcel.rows)
        if parcel.aborted is not None:
            self.counters[f"aborted.{name}"] += parcel.aborted
        if parcel.replied:
            self.counters[f"replies.{name}"] += parcel.replied
        if parcel.replies is not None:
            self._replies.setdefault(work.feed, []).append(parcel.replies)
        for messages in parcel.messages:
            self.outbox.extend(**messages)

    def _send_on(
        self, parcel: Parcel, work: Work, picked: Rows, results: _Sorted, lane: int | None, unfit: list[NoParcel]
    ) -> None:
        for target, messages in results.messages.items():
            try:
                self._send(parcel, work, self._plan.task_of(work.task.entry, target), picked, messages, lane)
            except NoParcel as one:
                unfit.append(one)
        if unfit:
            raise min(unfit, key=lambda one: one.at)

    def _reply(self, parcel: Parcel, work: Work, rows: Picked, values: list[Any], places: Sequence[int]) -> None:
        feed = self._plan.feeds[work.feed]
        entry = self._plan.program.entries[feed.entry]
        point = entry.point
        reasons: list[str | None] | None = None
        if point.windows and any(value is Done for value in values):
            # No window of these keys was over.
            told = [at for at, value in enumerate(values) if value is not Done]
            picked = rows if isinstance(rows, np.ndarray) else np.arange(len(work))[rows or slice(None)]
            rows, values, places = picked[told], [values[at] for at in told], [places[at] for at in told]
        if entry.aborts:
            reasons = [value.reason if type(value) is Refused else None for value in values]
            values = [None if type(value) is Refused else value for value in values]
            parcel.aborted = len(reasons) - reasons.count(None)
        if feed.replies is None or not values:
            return
        replies = _converted(values, feed.entry, point.returns, places) if point.replies else None
        kept = [column.arrow(rows) for column in work.keep]
        parcel.replied = len(values)
        table = reply_table(feed.keep, kept, replies, reasons)
        if feed.replies.rows is not None:
            table = unfolded(table, feed.replies.rows)
        if feed.replies.apart:
            table = taken_apart(table)
        if not table.num_rows:
            return
        parcel.replies = table

    def _send(
        self,
        parcel: Parcel,
        work: Work,
        after: CompiledTask,
        picked: Rows,
        messages: list[_Message],
        lane: int | None,
    ) -> None:
        rows = picked[[message.row for message in messages]]
        values = [message.values for message in messages]
        kept = [column.take(rows) for column in work.keep]
        if work.times is not None:
            kept.append(work.times[rows].tolist())
        extra = list(zip(*kept, strict=True)) if kept else [()] * len(values)
        bodies: list[bytes] = []
        try:
            for carried, more in zip(values, extra, strict=True):
                bodies.append(encode_message((*carried, *more), after.inputs))
        except RowError as error:
            raise NoParcel(messages[len(bodies)].row, _unfit(error)) from error
        groups = self._groups(work, rows, messages, after)
        places = work.places.take(rows)
        columns: dict[str, list[Any]] = {
            "task": [self._plan.task_id(after)] * len(rows),
            "feed": [work.feed] * len(rows),
            "grp": groups,
            "ord": places.order.tolist(),
            "src": work.sources.take(pa.array(rows)).to_pylist(),
            "pos": places.position.tolist(),
            "tie": places.tie.tolist(),
            "dup": places.duplicate.tolist(),
            "path": _paths(work, rows, messages),
            "inst": [lane or 0] * len(rows),
            "body": bodies,
        }
        if after.dispatch is not Dispatch.ONE_TO_ALL:
            targets = self._carriers if after.free else self._owners
            parcel.messages.append({"part": [targets[group] for group in groups], **columns})
            return
        for partition in range(self._plan.layout.partitions):
            if len(self._plan.layout.instances_of(PartitionId(partition))):
                parcel.messages.append({"part": [partition] * len(rows), **columns})

    def _groups(self, work: Work, rows: Rows, messages: list[_Message], after: CompiledTask) -> list[int]:
        if after.dispatch is not Dispatch.BY_KEY:
            assert work.groups is not None, after.name
            groups: list[int] = work.groups[rows].tolist()
            return groups
        layout = self._plan.layout
        if not after.key:
            return [layout.group_of(THE_KEY)] * len(messages)
        place = after.inputs.index(after.key[0])
        keys = [message.values[place] for message in messages]
        if set(map(type, keys)) == {int} and min(keys) >= -(2**63) and max(keys) < 2**63:
            hashed: list[int] = (hash_ints(np.array(keys, dtype=np.int64)) % layout.key_groups).tolist()
            return hashed
        known: dict[Any, KeyGroup] = {}
        out: list[int] = []
        try:
            for key in keys:
                group = known.get(key)
                if group is None:
                    group = known[key] = layout.group_of(key)
                out.append(group)
        except TypeError as error:
            unfit = UnfitError(
                "MP227",
                f"`{after.key[0]}` is used as a key of state, and can't be one",
                expected="a value that can be a key: a number, a text, a tuple of such",
                found=str(error)[:120],
                hint="convert it before it is used as a key",
            )
            raise NoParcel(messages[len(out)].row, unfit) from error
        return out

    def stage_many(self, checkpoint: Storage) -> None:
        """Stage replies that have become many; others may follow."""
        for number, tables in list(self._replies.items()):
            if sum(table.nbytes for table in tables) > REPLY_BYTES_MAX:
                self._staged.append(self._stage_replies(number, checkpoint, f"-{len(self._staged) + 1:03}"))
                del self._replies[number]

    def _stage_replies(self, number: int, checkpoint: Storage, suffix: str = "") -> OutputFile:
        sink = self._plan.feeds[number].replies
        assert sink is not None
        return stage(sink, pa.concat_tables(self._replies[number]), self._place + suffix, checkpoint)

    def write_files(self, checkpoint: Storage) -> tuple[OutputFile, ...]:
        """Stage the files of replies and dead letters; they become visible after the commit."""
        files = [*self._staged, *(self._stage_replies(number, checkpoint) for number in self._replies)]
        for number, letters in self._dead.items():
            feed = self._plan.feeds[number]
            assert feed.dead_letters is not None
            ordered = feed.order is Order.COLUMN
            table = letter_table(letters, feed.name, feed.entry, self._epoch, ordered=ordered)
            files.append(stage(feed.dead_letters, table, self._place, checkpoint))
        for late in self._late:
            sink = self._plan.feeds[late.feed].late
            assert sink is not None
            files.append(stage(sink, late.table, self._place, checkpoint))
        return tuple(files)


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of a row, before it is written: `turn` counts what the row's loops sent away, -1 for the row itself."""

    row: int
    values: tuple[Any, ...]
    turn: int = -1


@dataclass(slots=True)
class _Sorted:
    """The results of rows by what they are; replies as (row, value)."""

    replies: list[tuple[int, Any]] = field(default_factory=list)
    messages: dict[int, list[_Message]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: list[Any]) -> _Sorted:
        """Sort the results of some rows."""
        found = cls()
        for at, result in enumerate(results):
            own = result
            if type(result) is Fanned:
                for turn, (target, values) in enumerate(result.messages):
                    found.messages.setdefault(target, []).append(_Message(at, values, turn))
                own = result.result
            if type(own) is Reply:
                found.replies.append((at, own.value))
            elif own is not Done:
                found.messages.setdefault(own[0], []).append(_Message(at, own[1]))
        return found


def _converted(values: list[Any], entry: str, returns: Any, places: Sequence[int]) -> pa.Array:
    """Return replies as a column; the first one that does not fit is told by its place."""
    try:
        return to_arrow(values, returns)
    except Exception as error:
        low, high = 0, len(values)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _misfit(values[low:middle], returns) else (middle, high)
        found = _misfit(values[low:high], returns)
        if not found:
            # Each fits by itself: that is nothing that a row has done.
            raise
        unfit = UnfitError(
            "MP604",
            f"a reply of `{entry}` does not fit its return type",
            expected=type_text(returns),
            found=found,
            hint="correct the return hint, or convert the reply",
        )
        raise NoParcel(places[low], unfit) from error


def _fit_plainly(values: list[Any], returns: Any) -> bool:
    if returns not in (int, float, bool, str, bytes) or not {returns}.issuperset(map(type, values)):
        return not values
    if returns is int:
        return min(values, default=0) >= -(2**63) and max(values, default=0) < 2**63
    # Text may hold what can't be written: half of a pair of surrogates.
    return returns is not str or all(map(str.isascii, values))


def _misfit(values: list[Any], returns: Any) -> str:
    """Say why values are no replies; nothing if they are."""
    try:
        to_arrow(values, returns)
    except Exception as error:  # noqa: BLE001 - a class of the user may fail in any way when it is read
        return text_of(error) or type(error).__name__
    return ""


def _unfit(error: RowError) -> UnfitError:
    return UnfitError(error.code, error.summary, expected=error.expected, found=error.found, hint=error.hint)


def _paths(work: Work, rows: Rows, messages: list[_Message]) -> list[bytes | None]:
    before = work.paths.take(pa.array(rows)).to_pylist()
    return [
        path if message.turn < 0 else (path or b"") + message.turn.to_bytes(4, "big")
        for path, message in zip(before, messages, strict=True)
    ]

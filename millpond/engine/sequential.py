"""One record at a time through its tasks, in memory: what a run on many machines must equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from millpond.compiler.compiled import CompiledEntry, CompiledProgram, CompiledTask, Done, Fanned, Reply
from millpond.compiler.plan.routing import argument_hash
from millpond.engine.time.eventtime import FIRST_US, LAST_US
from millpond.errors import Aborted, FeedError
from millpond.graph.model import Dispatch, Mode
from millpond.ids import InstanceId, KeyGroup
from millpond.keygroups import DEFAULT_INSTANCES, DEFAULT_KEY_GROUPS, Layout
from millpond.program import Element
from millpond.program.globals import asking
from millpond.program.semantics.epoch_time import (
    FireUntil,
    adding_now_us,
    event_time,
    firing_until,
    moment_of,
    now_us,
    row_turn,
)
from millpond.program.semantics.rows import JOURNAL
from millpond.state.cascade import Cascade, Timer, Turn
from millpond.state.codec.wire import decode_values, encode_message
from millpond.state.containers.element import THE_KEY
from millpond.state.containers.map import Map
from millpond.state.copying import copied
from millpond.state.expiry import Expiring, expiring_entries
from millpond.state.journal import Journal
from millpond.state.local.storekey import store_key
from millpond.state.rowentries import row_container
from millpond.state.timers import DUE, TimersType, due_unit
from millpond.state.units import store_keys_of
from millpond.windowing.element import Windows


@dataclass(eq=False)
class _Record:
    """A record on its way: what its task sends on, and its reply once it has one."""

    number: int
    entry: CompiledEntry
    time_us: int | None = None
    waiting: list[_Message] = field(default_factory=list)
    reply: Any = None


@dataclass(eq=False)
class _Message:
    """A record's way to its next task: at which step, by which turns of loops, with which variables."""

    record: _Record
    step: int
    path: tuple[int, ...]
    task: CompiledTask
    group: KeyGroup
    values: dict[str, Any]


class Sequential:
    """Runs a compiled program record by record; values that cross a cut are copied as they are on the wire."""

    def __init__(
        self, compiled: CompiledProgram, key_groups: int = DEFAULT_KEY_GROUPS, instances: int = DEFAULT_INSTANCES
    ) -> None:
        self._compiled = compiled
        self._layout = Layout(key_groups, partitions=1, instances=instances, aligned=compiled.has_partial)
        self._journal = Journal()
        self._states = {
            name: [_Instance(element, self._journal) for _ in range(instances if element.partial else 1)]
            for name, element in compiled.elements.items()
        }
        self._told_us: int | None = None

    def call(self, entry: str, *args: Any) -> Any:
        """Run one record through an entry point, before any other, and return its reply."""
        (reply,) = self.epoch([(entry, args)])
        if isinstance(reply, Aborted):
            raise reply
        return reply

    def epoch(self, rows: Sequence[tuple[str, tuple[Any, ...]]], times_us: Sequence[int] | None = None) -> list[Any]:
        """Run the records of an epoch step by step, those of a step in input order, and return their replies.

        This is what relaxed entry points mean: a task is done as a whole, in the order of records and of the turns of
        their loops, and whatever a record does next comes a step later. Exact ones give what plain Python gives. The
        reply of a record that aborts is the `Aborted` itself. If one raises, nothing of the epoch stays. With event
        time, `times_us` are what `self.now` says in each record.
        """
        with self._journal.all_or_nothing():
            if not any(self._runs_in_sequence(entry) for entry, _ in rows):
                return self._epoch(rows, times_us)
            times = [None] * len(rows) if times_us is None else [[time_us] for time_us in times_us]
            return [reply for row, own in zip(rows, times, strict=True) for reply in self._epoch([row], own)]

    def _runs_in_sequence(self, entry: str) -> bool:
        compiled = self._compiled.entries.get(entry)
        return compiled is not None and compiled.tasks[0].dispatch is Dispatch.SEQUENCE

    def _epoch(self, rows: Sequence[tuple[str, tuple[Any, ...]]], times_us: Sequence[int] | None) -> list[Any]:
        records = [self._record(number, entry, *args) for number, (entry, args) in enumerate(rows)]
        if times_us is not None:
            for record, time_us in zip(records, times_us, strict=True):
                record.time_us = time_us
        waiting = [message for record in records for message in record.waiting]
        step = 0
        while waiting:
            here = [message for message in waiting if message.step == step]
            waiting = [message for message in waiting if message.step != step]
            for message in sorted(here, key=lambda message: (message.record.number, message.path)):
                message.record.waiting.clear()
                own = message.record.time_us
                with nullcontext() if own is None else event_time(own):
                    self._advance(message)
                waiting += message.record.waiting
            step += 1
        return [copied(record.reply) for record in records]

    def fire_timers(self, watermark_us: int | None = None, floor_us: int = FIRST_US) -> list[Any]:
        """Run the timers that are due at the time of the epoch, as its end does, and return the handlers' replies.

        With event time, those up to the watermark are due, and each handler has the time of its timer, or `floor_us`.
        """
        until = now_us() if watermark_us is None else watermark_us
        for instance in (instance for instances in self._states.values() for instance in instances):
            if isinstance(instance.entries, Expiring):
                instance.entries.settle()
        types = {name: element.type for name, element in self._compiled.elements.items()}
        handlers = {name: kind for name, kind in types.items() if isinstance(kind, TimersType)}
        named, cascade, turn = list(handlers.items()), Cascade(handlers), Turn()
        replies: list[Any] = []
        while (found := cascade.next_round(self._due_now(named, until), turn, ends=until >= LAST_US)) is not None:
            turn = found.turn
            called = [(*named[number], key, at) for at, number, key in found.timers]
            rows = [(name, (key, moment_of(kind.fires_at(at, until)))) for name, kind, key, at in called]
            with firing_until(FireUntil(until, self._told_us, found.once)):
                replies += self.epoch(rows, None if watermark_us is None else [max(at, floor_us) for *_, at in called])
        self._told_us = until
        return [reply for reply in replies if reply is not Done]

    def _due_now(self, handlers: Sequence[tuple[str, TimersType]], until: int) -> list[Timer]:
        return [
            (at, number, key)
            for number, (name, kind) in enumerate(handlers)
            for at, key in self._states[name][0].container.due(kind.until_us(until))
        ]

    def _record(self, number: int, entry: str, *args: Any) -> _Record:
        compiled = self._compiled.entries.get(entry)
        if compiled is None:
            raise FeedError(
                "MP510", "the program has no such entry point", expected=", ".join(self._compiled.entries), found=entry
            )
        parameters = compiled.point.parameters
        args = compiled.point.filled(args)
        if len(args) != len(parameters):
            raise FeedError(
                "MP503",
                f"the arguments are not the columns of {entry}",
                expected=", ".join(name for name, _ in parameters) or "none",
                found=f"{len(args)} value(s)",
            )
        values = {name: copied(value) for (name, _), value in zip(parameters, args, strict=True)}
        first = compiled.tasks[0]
        record = _Record(number, compiled)
        record.waiting.append(_Message(record, 0, (), first, self._start(compiled, args), values))
        return record

    def _advance(self, message: _Message) -> None:
        record, task = message.record, message.task
        if task.dispatch is Dispatch.BY_KEY:
            message.group = self._layout.group_of(_key_of(task, message.values))
        if task.dispatch is Dispatch.ONE_TO_ALL:
            self._ask(record, message)
        elif task.dispatch is Dispatch.GATHERED:
            record.reply = self._all_or_nothing(task, message.values)
        elif task.dispatch is Dispatch.SEQUENCE:
            record.reply = self._as_written(task, message)
        else:
            result = self._work(task, message.values, self._layout.instance_of(message.group))
            self._take(record, message, result)

    def _all_or_nothing(self, task: CompiledTask, values: dict[str, Any]) -> Any:
        """Run a record over several keys; if it raises, nothing that it did stays."""
        try:
            with self._journal.all_or_nothing():
                return self._work(task, values, InstanceId(0))
        except Aborted as error:
            return error

    def _as_written(self, task: CompiledTask, message: _Message) -> Any:
        """Run a record as the plain Python that it is; if it raises, nothing that it did stays."""
        lane = self._layout.instance_of(message.group)
        program = object.__new__(self._compiled.made_of)
        vars(program)[JOURNAL] = self._journal
        every = {name: [one.container for one in states] for name, states in self._states.items()}
        vars(program).update((name, some[lane if len(some) > 1 else 0]) for name, some in every.items())
        columns = [[message.values[name]] for name in task.inputs] or [[None]]
        out: list[Any] = []
        try:
            with self._journal.all_or_nothing(), asking({id(one): some for some in every.values() for one in some}):
                task.function(out, _AtWork(program), *columns)
                self._journal.end_row()
        except Aborted as error:
            return error
        return out[0]

    def _ask(self, record: _Record, message: _Message) -> None:
        """Run a task on every instance; the answers go on as one message."""
        instances = range(self._layout.instances)
        answers = [self._work(message.task, message.values, InstanceId(i)) for i in instances]
        if isinstance(answers[0], Reply):
            record.reply = answers[0].value
            return
        target, _ = answers[0]
        merge = record.entry.tasks[target]
        place = merge.inputs.index(merge.collects)
        carried = [_carried(values, merge.inputs) for _, values in answers]
        together = [*carried[0]]
        together[place] = [values[place] for values in carried]
        values = dict(zip(merge.inputs, together, strict=True))
        record.waiting.append(replace(message, step=message.step + 1, task=merge, values=values))

    def _take(self, record: _Record, message: _Message, result: Any) -> None:
        if isinstance(result, Fanned):
            for turn, (target, values) in enumerate(result.messages):
                self._go_on(record, replace(message, path=(*message.path, turn)), target, values)
            result = result.result
        if message.task.last:
            record.reply = result
        elif isinstance(result, Reply):
            record.reply = result.value
        elif result is not Done:
            self._go_on(record, message, *result)

    @staticmethod
    def _go_on(record: _Record, message: _Message, target: int, values: tuple[Any, ...]) -> None:
        task = record.entry.tasks[target]
        step = message.step + 1 if task.relaxed else task.step
        carried = dict(zip(task.inputs, _carried(values, task.inputs), strict=True))
        record.waiting.append(replace(message, step=step, task=task, values=carried))

    def _start(self, compiled: CompiledEntry, args: Sequence[Any]) -> KeyGroup:
        return KeyGroup((argument_hash(compiled.point, args) or 0) % self._layout.key_groups)

    def _work(self, task: CompiledTask, values: dict[str, Any], instance: InstanceId) -> Any:
        states = [(one.state, 0 if one.mode is Mode.KEYED else instance) for one in task.accesses]
        containers = [self._states[name][at].seen_by(task, name) for name, at in states]
        columns = [[values[name]] for name in task.inputs] or [[None]]
        out: list[Any] = []
        task.function(out, *containers, *columns)
        (result,) = out
        return result

    def state(self) -> dict[bytes, bytes]:
        """Return the whole state as a checkpoint would hold it."""
        held: dict[bytes, bytes] = {}
        for index, (name, element) in enumerate(self._compiled.elements.items()):
            for number, instance in enumerate(self._states[name]):
                held.update(self._entries(index, element, InstanceId(number), instance.entries))
        for name, element in self._compiled.elements.items():
            if isinstance(element.type, TimersType):
                held.update(self._due(name, element.type))
        return held

    def _due(self, name: str, timers: TimersType) -> list[tuple[bytes, bytes]]:
        """Return what orders timers by their moments."""
        index = list(self._compiled.elements).index(name + DUE)
        moments = ((timers.moment(value), key) for key, value in dict.items(self._states[name][0].entries))
        units = [due_unit(at, key) for at, key in moments if at is not None]
        keys = store_keys_of(index, timers.due.keys, units, self._layout.key_groups)
        return [(key, timers.due.values.encode(None)) for key in keys]

    def _entries(
        self, index: int, element: Element, instance: InstanceId, entries: Map[Any, Any]
    ) -> list[tuple[bytes, bytes]]:
        codec = element.type
        if isinstance(entries, Expiring):
            entries.settle()
            live = entries.live(now_us())
            entries = Map((unit, (entries.ages.stamps[unit], dict.__getitem__(entries, unit))) for unit in live)
        held = []
        for unit, value in dict.items(entries):
            if element.partial:
                group = self._layout.home_of(instance)
            else:
                group = self._layout.group_of(THE_KEY if codec.single else unit)
            held.append((store_key(index, group, codec.keys.encode(unit)), codec.values.encode(value)))
        return held


class _AtWork(NamedTuple):
    """A program whose rows are ended by its journal."""

    program: Any
    begins: None = None

    def method(self, name: str, function: Callable[..., Any], codes: object) -> Callable[..., Any]:  # noqa: ARG002
        """Return the method of an entry point, as it is written."""
        return function

    def read_ahead(self, keys: object) -> None:
        """Read nothing: all is at hand."""

    def endings(self, names: object) -> tuple[()]:  # noqa: ARG002
        """Return nothing: the journal ends a row."""
        return ()

    def end_rows(self) -> None:
        """Leave it to the journal to end a row."""


class _Instance:
    """One instance of an element: what user code sees, and the entries below it."""

    def __init__(self, element: Element, journal: Journal) -> None:
        if element.ttl is None:
            self.entries: Map[Any, Any] = element.type.plain(journal)
        else:
            self.entries = expiring_entries(
                element.type, element.ttl, now_us, turn=row_turn, journal=journal, checked=True, watched=True
            )
        self.container = element.type.wrap(self.entries)
        self._element = element
        self._rows: Any = None
        if isinstance(self.container, Windows):
            self.container.clock = adding_now_us(self.container.place)

    def seen_by(self, task: CompiledTask, name: str) -> Any:
        """Return the container that a task works on."""
        if name not in task.renews:
            return self.container
        if self._rows is None:
            self._rows = row_container(self._element.type, self.entries)
        return self._rows


def _key_of(task: CompiledTask, values: dict[str, Any]) -> Any:
    if not task.key:
        return THE_KEY
    return values[task.key[0]] if len(task.key) == 1 else tuple(values[name] for name in task.key)


def _carried(values: tuple[Any, ...], names: tuple[str, ...]) -> list[Any]:
    """Variables as they arrive at another task: copies, as on the wire."""
    return decode_values(encode_message(values, names))

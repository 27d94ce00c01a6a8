"""One record at a time through its tasks, in memory: what a run on many machines must equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millpond.compiler.compiled import CompiledEntry, CompiledProgram, CompiledTask, Reply
from millpond.compiler.routing import argument_hash
from millpond.errors import FeedError
from millpond.graph.model import Dispatch, Mode
from millpond.ids import InstanceId, KeyGroup
from millpond.keygroups import DEFAULT_INSTANCES, DEFAULT_KEY_GROUPS, Layout
from millpond.program import Element
from millpond.state.element import THE_KEY
from millpond.state.map import Map
from millpond.state.storekey import store_key
from millpond.state.wire import decode_values, encode_values


@dataclass
class Record:
    """A record on its way: the tasks of its entry point, its key group, and the variables that it carries."""

    entry: CompiledEntry
    group: KeyGroup
    values: dict[str, Any]
    at: int = 0
    done: bool = False
    reply: Any = None

    @property
    def task(self) -> CompiledTask:
        """The task that it meets next."""
        return self.entry.tasks[self.at]


class Sequential:
    """Runs a compiled program record by record; values that cross a cut are copied as they are on the wire."""

    def __init__(
        self, compiled: CompiledProgram, key_groups: int = DEFAULT_KEY_GROUPS, instances: int = DEFAULT_INSTANCES
    ) -> None:
        self._compiled = compiled
        self._layout = Layout(key_groups, partitions=1, instances=instances, aligned=compiled.has_partial)
        self._states = {
            name: [_Instance(element) for _ in range(instances if element.partial else 1)]
            for name, element in compiled.elements.items()
        }

    def call(self, entry: str, *args: Any) -> Any:
        """Run one record through an entry point and return its reply."""
        record = self.record(entry, *args)
        while not record.done:
            self.advance(record)
        return record.reply

    def record(self, entry: str, *args: Any) -> Record:
        """A record at the start of an entry point."""
        compiled = self._compiled.entries.get(entry)
        if compiled is None:
            raise FeedError("MP510", "no such entry point", expected=", ".join(self._compiled.entries), found=entry)
        parameters = compiled.point.parameters
        if len(args) != len(parameters):
            raise FeedError(
                "MP503",
                f"the arguments are not the columns of {entry}",
                expected=", ".join(name for name, _ in parameters) or "none",
                found=f"{len(args)} value(s)",
            )
        values = {name: value for (name, _), value in zip(parameters, args, strict=True)}
        return Record(compiled, self._start(compiled, args), values)

    def advance(self, record: Record) -> None:
        """Run the next task of a record."""
        task = record.task
        if task.dispatch is Dispatch.BY_KEY:
            record.group = self._layout.group_of(_key_of(task, record.values))
        record.at += 1
        if task.dispatch is Dispatch.ONE_TO_ALL:
            answers = [self._work(task, record.values, InstanceId(i)) for i in range(self._layout.instances)]
            record.values = _collect(task, record.task, answers)
            return
        result = self._work(task, record.values, self._layout.instance_of(record.group))
        if task.last or isinstance(result, Reply):
            record.reply = result.value if isinstance(result, Reply) else result
            record.done = True
        else:
            record.values = dict(zip(task.outputs, result, strict=True))

    def _start(self, compiled: CompiledEntry, args: Sequence[Any]) -> KeyGroup:
        hints = [hint for _, hint in compiled.point.parameters]
        return KeyGroup(argument_hash(hints, args) % self._layout.key_groups)

    def _work(self, task: CompiledTask, values: dict[str, Any], instance: InstanceId) -> Any:
        containers = [
            self._states[access.state][0 if access.mode is Mode.KEYED else instance].container
            for access in task.accesses
        ]
        columns = [[values[name]] for name in task.inputs] or [[None]]
        out: list[Any] = []
        task.function(out, *containers, *columns)
        (result,) = out
        if task.last or isinstance(result, Reply):
            return result
        return decode_values(encode_values(result))

    def state(self) -> dict[bytes, bytes]:
        """The whole state as a checkpoint would hold it."""
        held: dict[bytes, bytes] = {}
        for index, (name, element) in enumerate(self._compiled.elements.items()):
            for number, instance in enumerate(self._states[name]):
                held.update(self._entries(index, element, InstanceId(number), instance.entries))
        return held

    def _entries(
        self, index: int, element: Element, instance: InstanceId, entries: Map[Any, Any]
    ) -> list[tuple[bytes, bytes]]:
        codec = element.type
        held = []
        for unit, value in dict.items(entries):
            if element.partial:
                group = self._layout.home_of(instance)
            else:
                group = self._layout.group_of(THE_KEY if codec.single else unit)
            held.append((store_key(index, group, codec.keys.encode(unit)), codec.values.encode(value)))
        return held


class _Instance:
    """One instance of an element: what user code sees, and the entries below it."""

    def __init__(self, element: Element) -> None:
        self.entries = element.type.bare()
        self.container = element.type.wrap(self.entries)


def _key_of(task: CompiledTask, values: dict[str, Any]) -> Any:
    if not task.key:
        return THE_KEY
    names = task.key.split(",")
    return values[names[0]] if len(names) == 1 else tuple(values[name] for name in names)


def _collect(task: CompiledTask, merge: CompiledTask, answers: list[list[Any]]) -> dict[str, Any]:
    """What arrives at a merge: one list of answers, and the other variables, which are the same everywhere."""
    place = task.outputs.index(merge.collects)
    values = dict(zip(task.outputs, answers[0], strict=True))
    return values | {merge.collects: [answer[place] for answer in answers]}

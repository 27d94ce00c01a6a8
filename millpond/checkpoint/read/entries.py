"""The entries of a checkpoint at a point, and what changed between two: key group by key group.

Entries whose time to live is over at a point are as absent, though its files may still hold them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from millpond.checkpoint.read.elements import ElementReader, Entry
from millpond.checkpoint.read.history import History, Point, find_element
from millpond.checkpoint.read.pieces import Pieces, Told, apply, tell_nobody
from millpond.checkpoint.records.manifest import EpochDeltas, StateFile
from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.recovery import read_changes
from millpond.errors import EpochError, StateError
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, unit_of


class Kind(Enum):
    """What happened to an entry."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class Change(NamedTuple):
    """What happened to an entry up to an epoch; `old` is None if it was added, `new` if it was removed."""

    epoch: int
    kind: Kind
    instance: int | None
    key: Any
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Size:
    """How much of an element lies in a key group; bytes are those of store keys and values."""

    element: int
    group: int
    entries: int
    size_bytes: int


def entries(
    history: History, point: Point, name: str, groups: range | None = None, told: Told = tell_nobody
) -> Iterator[Entry]:
    """Yield the entries of an element, ordered by instance or key group and then by key."""
    reader = history.reader(name, point)
    files = point.files(groups)
    with Pieces(history.storage, told) as pieces:
        pieces.load(files, {reader.index}, groups)
        over = point.over_us
        for cut in pieces.cuts(files):
            state = sorted(_live(pieces.state(files, cut), over).items())
            if state:
                yield from reader.decode(_instance(reader, state[0][0]), state)


def sizes(history: History, point: Point, told: Told = tell_nobody) -> Iterator[Size]:
    """Say how much each element has in each key group; those without entries are left out."""
    history.check_here(point)
    files = point.files()
    with Pieces(history.storage, told) as pieces:
        pieces.load(files)
        over = point.over_us
        for cut in pieces.cuts(files):
            state = _live(pieces.state(files, cut), over)
            if state:
                yield Size(*cut, len(state), sum(map(len, state)) + sum(map(len, state.values())))


def lookup(history: History, point: Point, name: str, key: Any, instance: int | None = None) -> list[Entry]:
    """Return the entry of a key, if there is one; of a partial element, that of each instance unless one is named."""
    reader = history.reader(name, point)
    numbers: list[int | None] = [instance]
    if reader.partial and instance is None:
        numbers = list(range(reader.layout.instances))
    elif instance is not None and not (reader.partial and 0 <= instance < reader.layout.instances):
        last = reader.layout.instances - 1
        raise StateError(
            "MP243",
            f"`{name}` has no such instance",
            expected=f"0 to {last}" if reader.partial else "no instance: the element is not partial",
            found=str(instance),
        )
    found = _find(history, point, {reader.store_key(key, number): number for number in numbers})
    return [entry for number, stored in found for entry in reader.decode(number, [stored])]


def _find(
    history: History, point: Point, wanted: dict[bytes, int | None]
) -> list[tuple[int | None, tuple[bytes, bytes]]]:
    """Return the newest value of some store keys; files are read from the newest on, and no further than needed."""
    missing = dict(wanted)
    found: dict[bytes, bytes] = {}
    for state_file in reversed(point.files()):
        if not any(state_file.overlaps(group_of(key), group_of(key)) for key in missing):
            continue
        keys, values = read_changes(history.storage, state_file)
        for key in list(missing):
            at = bisect_left(keys, key)
            if at < len(keys) and keys[at] == key:
                del missing[key]
                value = values[at]
                if value is not None:
                    found[key] = value
    live = _live(found, point.over_us)
    return [(wanted[key], (key, live[key])) for key in wanted if key in live]


def _live(state: dict[bytes, bytes], over: Mapping[int, int]) -> dict[bytes, bytes]:
    return {key: value for key, value in state.items() if not is_over(key, value, over)} if over else state


def diff(history: History, before: Point, after: Point, name: str, told: Told = tell_nobody) -> Iterator[Change]:
    """Yield what differs after one point from what was before, ordered by instance or key group and then by key."""
    old, new = sides(history, before, after, name)
    old_files = before.files() if find_element(name, before) is not None else ()
    new_files = after.files() if find_element(name, after) is not None else ()
    old_places, new_places = _places(old), _places(new)
    with Pieces(history.storage, told) as pieces:
        pieces.load((*old_files, *new_files), {old.index, new.index})
        for place in sorted({*old_places, *new_places}):
            was = _units(pieces, old_files, old, old_places.get(place), before)
            now = _units(pieces, new_files, new, new_places.get(place), after)
            instance = place if new.partial else None
            if old.schema.key == new.schema.key:
                yield from _differences(old, new, after.epoch, instance, was, now)
            else:
                # Keys of two types are never the same one.
                yield from _differences(old, old, after.epoch, instance, was, {})
                yield from _differences(new, new, after.epoch, instance, {}, now)


def sides(history: History, before: Point, after: Point, name: str) -> tuple[ElementReader, ElementReader]:
    """Return what reads an element at two points; where there was no such element, what reads it at the other one."""
    gone = find_element(name, after) is None and find_element(name, before) is not None
    new = history.reader(name, before if gone else after)
    return (new if find_element(name, before) is None else history.reader(name, before)), new


def _places(reader: ElementReader) -> dict[int, int]:
    """Return the key group of each instance, which may be another one after a rescale; else of each group itself."""
    return {group if number is None else number: group for number, group in reader.groups()}


def _units(
    pieces: Pieces, files: tuple[StateFile, ...], reader: ElementReader, group: int | None, point: Point
) -> dict[bytes, bytes]:
    if group is None:
        return {}
    state = _live(pieces.state(files, (reader.index, group)), point.over_us)
    return {unit_of(key): value for key, value in state.items()}


def feed(
    history: History, since: Point, until: Point, name: str, groups: range | None = None, told: Told = tell_nobody
) -> Iterator[Change]:
    """Yield every change of each epoch after `since`, up to `until`: ordered by instance or key group, epoch, key."""
    reader = history.reader(name, until)
    deltas = check_feed(history, since, until, name)
    base = since.files(groups)
    files = (*base, *(state_file for delta in deltas for state_file in delta.files))
    wanted = {f: None for f in files if groups is None or (groups and f.overlaps(groups[0], groups[-1]))}
    with Pieces(history.storage, told) as pieces:
        pieces.load(wanted, {reader.index}, groups)
        changed = [f for delta in deltas for f in delta.files if f in wanted]
        for cut in pieces.cuts(changed):
            state = pieces.state(base, cut)
            for delta in deltas:
                touched: dict[bytes, bytes | None] = {}
                for state_file in delta.files:
                    if state_file in wanted:
                        touched.update(pieces.changes(state_file, cut).pairs())
                was = {unit_of(key): state[key] for key in touched if key in state}
                now = {unit_of(key): value for key, value in touched.items() if value is not None}
                if touched:
                    instance = _instance(reader, next(iter(touched)))
                    yield from _differences(reader, reader, delta.epoch, instance, was, now)
                apply(state, Changes.of(touched))


def check_feed(history: History, since: Point, until: Point, name: str) -> tuple[EpochDeltas, ...]:
    """Return what each epoch in between changed; raises if that can't be told."""
    if since.epoch > until.epoch:
        raise EpochError(
            "MP452",
            "changes were asked for backwards",
            expected=f"an epoch up to {until.epoch}",
            found=f"since epoch {since.epoch}",
            hint="give the earlier epoch first",
        )
    between = [epoch for epoch in history.epochs if since.epoch < epoch <= until.epoch]
    _check_types(history, since, until, name, between)
    if history.reader(name, until).partial:
        counts = {epoch: history.instances_of(history.manifest(epoch)[0]) for epoch in between}
        for epoch, count in ({since.epoch: since.instances} | counts).items():
            if count != until.instances:
                raise _rescaled(name, since, until, f"{count} after epoch {epoch}")
    return history.deltas(since.epoch, until.epoch)


def _check_types(history: History, since: Point, until: Point, name: str, between: list[int]) -> None:
    """Refuse changes of an element that was another one at some epoch in between."""
    index, schema = history.element(name, until)
    if until.manifest is None or until.manifest.evolved <= since.epoch:
        return
    for point in (since, *map(history.point, between)):
        found = find_element(name, point)
        if found != (index, schema):
            raise EpochError(
                "MP447",
                f"the type of `{name}` changed in between",
                expected=f"{schema} since epoch {since.epoch}",
                found=f"{'no such element' if found is None else found[1]} at epoch {point.epoch}",
                hint="read the changes before and after the evolution, or compare two epochs: `millpond state diff`",
            )


def _rescaled(name: str, since: Point, until: Point, found: str) -> EpochError:
    return EpochError(
        "MP453",
        f"the number of instances of `{name}` changed in between",
        expected=f"{until.instances} instances since epoch {since.epoch}",
        found=found,
        hint="read the changes before and after the rescale, or compare two epochs: `millpond state diff`",
    )


def _differences(
    old: ElementReader,
    new: ElementReader,
    epoch: int,
    instance: int | None,
    was: dict[bytes, bytes],
    now: dict[bytes, bytes],
) -> Iterator[Change]:
    """Compare the bytes of values: equal values have equal bytes."""
    units = [unit for unit in sorted(was.keys() | now.keys()) if was.get(unit) != now.get(unit)]
    olds, news = _decoded(old, units, was), _decoded(new, units, now)
    for unit, key in zip(units, new.decode_keys(units), strict=True):
        kind = Kind.ADDED if unit not in was else Kind.REMOVED if unit not in now else Kind.CHANGED
        yield Change(epoch, kind, instance, key, olds.get(unit), news.get(unit))


def _decoded(reader: ElementReader, units: list[bytes], side: dict[bytes, bytes]) -> dict[bytes, Any]:
    there = [unit for unit in units if unit in side]
    return dict(zip(there, reader.decode_values([side[unit] for unit in there]), strict=True))


def _instance(reader: ElementReader, key: bytes) -> int | None:
    if not reader.partial:
        return None
    number = reader.instance_at(key)
    if number is None:
        raise reader.damaged("a key under a group of no instance", key, reader.schema.key)
    return number

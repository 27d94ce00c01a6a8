"""What is different between two tables of one element: part by part, by comparing bytes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from millpond.checkpoint.read.entries import Change, Kind

if TYPE_CHECKING:
    from millpond.front.tables import StateTable, Unit

_END = b"", 2, b""
_NONE: tuple[Unit, ...] = ()


def differences(old: StateTable | None, new: StateTable) -> Iterator[Change]:
    """Yield what changed from one table to another; without an old one, all of the new one was added."""
    if old is not None and not new.has_keys_of(old):
        # Keys of two types are never the same one.
        yield from _removed(old, new)
        old = None
    before = [] if old is None else old.parts()
    after = new.parts()
    for part in [*after, *(part for part in before if part not in set(after))]:
        was = old.units(part) if old is not None and part in set(before) else iter(_NONE)
        now = new.units(part) if part in set(after) else iter(_NONE)
        yield from _compared(new if old is None else old, new, part, was, now)


def _removed(old: StateTable, new: StateTable) -> Iterator[Change]:
    for part in old.parts():
        for unit, value in old.units(part):
            kept = old.instance_of(part), old.decode_key(unit), old.decode_value(value)
            yield Change(new.epoch, Kind.REMOVED, *kept, None)


def _compared(
    old: StateTable, new: StateTable, part: int | None, was: Iterator[Unit], now: Iterator[Unit]
) -> Iterator[Change]:
    """Compare two parts, both in the order of keys; equal values have equal bytes."""
    sides = heapq.merge(((unit, 0, value) for unit, value in was), ((unit, 1, value) for unit, value in now))
    held: dict[int, bytes] = {}
    last = b""
    for unit, side, value in chain(sides, (_END,)):
        if held and (unit != last or side == 2):
            if held.get(0) != held.get(1):
                yield _change(old, new, part, last, held)
            held = {}
        last = unit
        held[side] = value


def _change(old: StateTable, new: StateTable, part: int | None, unit: bytes, held: dict[int, bytes]) -> Change:
    kind = Kind.ADDED if 0 not in held else Kind.REMOVED if 1 not in held else Kind.CHANGED
    was = old.decode_value(held[0]) if 0 in held else None
    now = new.decode_value(held[1]) if 1 in held else None
    return Change(new.epoch, kind, new.instance_of(part), new.decode_key(unit), was, now)

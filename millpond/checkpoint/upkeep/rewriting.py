"""The entries of an evolution's epoch: each element's old entries made new, or gone, as one ascending delta."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast

import msgspec

from millpond.checkpoint.read.loose import decode_loosely
from millpond.checkpoint.read.typetexts import read_type
from millpond.checkpoint.records.manifest import elements_mark
from millpond.checkpoint.records.offers import Evolved
from millpond.checkpoint.records.work import EpochWork, Parent
from millpond.checkpoint.upkeep.evolving import Evolution, Rewrite
from millpond.checkpoint.upkeep.inheritance import differences
from millpond.checkpoint.upkeep.merging import Entry
from millpond.checkpoint.upkeep.rescale import Difference, write_differences
from millpond.checkpoint.upkeep.scratch import Scratch, scratch_store, scratch_view
from millpond.errors import MigrationError, MillpondError, StateError
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.oldtypes import OldType
from millpond.state.codec.shapes import shape_of, shape_text
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.list import List
from millpond.state.containers.value import THE_KEY
from millpond.state.evolution import InexactError, Mismatch, conversion
from millpond.state.expiry import AgedType
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storekey import PREFIX_BYTES, group_of, store_key, store_prefix
from millpond.state.local.storeversion import Stamp, StoreVersion
from millpond.state.local.storeview import StoreView
from millpond.state.timers import DUE
from millpond.storage.contract import Storage
from millpond.windowing.element import WindowsType

_PAIR: Any = tuple

CHUNK_ENTRIES = 4096
"""So many entries are decoded and encoded at once."""


@dataclass(frozen=True, slots=True)
class Evolving:
    """A change of the state elements; `timed` adds to the work of its epoch what it says of time."""

    evolution: Evolution
    timed: Callable[[EpochWork], EpochWork]

    @property
    def offer(self) -> Evolved:
        """What is applied to the checkpoint."""
        return Evolved(elements_mark(self.evolution.elements))

    @property
    def doing(self) -> str:
        """What people are told of it while it is under way."""
        return "bringing state elements over"

    def compute(self, storage: Storage, parent: Parent, scratch: Scratch) -> EpochWork:
        """Return the work of the epoch that follows `parent`."""
        rewrites = {rewrite.index: rewrite for rewrite in self.evolution.rewrites}
        concerned = sorted({*rewrites, *self.evolution.dropped})
        with scratch_view(storage, parent, concerned, scratch) as view:
            found = self._changes(view, parent, concerned, rewrites, scratch)
            changed = write_differences(storage, found, parent.mark)
        return self.timed(EpochWork((changed,), (), {}, elements=self.evolution.elements))

    def _changes(
        self, view: StoreView, parent: Parent, concerned: list[int], rewrites: dict[int, Rewrite], scratch: Scratch
    ) -> Iterator[Difference]:
        for done, index in enumerate(concerned):
            kept = parent.elements[index]
            # What orders timers follows from them, and is not counted beside them.
            counts = kept is None or not kept.name.endswith(DUE)
            for key, value, growth in _of_element(view, parent, index, rewrites.get(index), scratch.folder):
                yield key, value, growth * counts
            scratch.writing(done + 1, len(concerned))


def _of_element(
    view: StoreView, parent: Parent, index: int, rewrite: Rewrite | None, folder: Path
) -> Iterator[Difference]:
    def old() -> Iterator[Entry]:
        return iter(view.scan(bytes((index,))))

    if rewrite is None:
        yield from differences(old(), ())
    elif rewrite.element.evolves.moves_keys:
        with scratch_store(folder) as store:
            _sort_into(store, _moved(rewrite, old(), parent.key_groups), rewrite)
            with store.view() as sorted_view:
                new = _checked(rewrite, sorted_view.scan(bytes((index,))))
                yield from differences(old(), new)
    else:
        yield from differences(old(), _converted(rewrite, old()))


def _converted(rewrite: Rewrite, entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield entries with their new values, under the keys that they have."""
    codec = rewrite.element.type.values
    if rewrite.carried is not None:
        one = cast("WindowsType", rewrite.element.type).rules.carry(rewrite.carried)
    else:
        one = _by_conversion(rewrite) if rewrite.conversion is not None else _by_hand(rewrite)
    keys = _old_keys(rewrite)
    for some in _chunks(entries):
        values = [_guarded(rewrite, keys, key, one, value) for key, value in some]
        try:
            encoded = codec.encode_many(values)
        except StateError:
            encoded = [
                _guarded(rewrite, keys, key, codec.encode, value) for (key, _), value in zip(some, values, strict=True)
            ]
        yield from zip((key for key, _ in some), encoded, strict=True)


def _moved(rewrite: Rewrite, entries: Iterator[Entry], key_groups: int) -> Iterator[Entry]:
    """Yield entries with new keys and values, where the program's function puts them; in no order."""
    layout = Layout(key_groups, 1, 1, aligned=False)
    element = rewrite.element
    keys, read = _old_keys(rewrite), _old_values(rewrite)
    migrate = element.evolves.migrate
    assert migrate is not None

    def made(key: bytes, value: bytes) -> Entry | None:
        stamp, old = read(value)
        entry = migrate(keys.decode(key[PREFIX_BYTES:]), old)
        if entry is None:
            return None
        if not isinstance(entry, tuple) or len(entry) != 2:
            raise _misfit(rewrite, "(key, value), or None for an entry that goes", shown(entry))
        unit, data = element.type.keys.encode(entry[0]), element.type.values.encode(_stamped(stamp, entry[1]))
        single = THE_KEY if element.type.single else entry[0]
        group = group_of(key) if element.partial else layout.group_of(single)
        return store_key(rewrite.index, group, unit), data

    for key, value in entries:
        found = _guarded(rewrite, keys, key, made, key, value)
        if found is not None:
            yield found


def _sort_into(store: LocalStore, entries: Iterator[Entry], rewrite: Rewrite) -> None:
    """Put entries into a store, which has them in order; two of one key are refused."""
    stamps = [Stamp("", 0, "")]
    store.rebuild(stamps[0], ())
    for some in _chunks(entries):
        held = dict(sorted(some))
        with store.view() as view:
            before = view.get_many(list(held))
        twice = [key for key, value in zip(held, before, strict=True) if value is not None]
        if len(held) != len(some):
            keys = sorted(key for key, _ in some)
            twice += [key for key, after in pairwise(keys) if key == after]
        if twice:
            raise _twice(rewrite, twice[0])
        stamps.append(Stamp("", len(stamps), ""))
        assert store.advance(StoreVersion(stamps[-2]), stamps[-1], [Changes.of(held)]), store.path


def _checked(rewrite: Rewrite, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries of the new element as they are; the positions of a list must follow each other."""
    if rewrite.element.type.container is not List:
        yield from entries
        return
    codec = rewrite.element.type.keys
    group, position = -1, 0
    for key, value in entries:
        group, position = (group, position + 1) if group_of(key) == group else (group_of(key), 0)
        if key != store_prefix(rewrite.index, group) + codec.encode(position):
            raise _misfit(rewrite, f"an item at position {position}", f"position {codec.decode(key[PREFIX_BYTES:])}")
        yield key, value


def _by_conversion(rewrite: Rewrite) -> Callable[[bytes], Any]:
    found = rewrite.conversion
    assert found is not None
    codec = rewrite.element.type.values
    return lambda data: codec.decode(found.stored(data))


def _by_hand(rewrite: Rewrite) -> Callable[[bytes], Any]:
    migrate, read = rewrite.element.evolves.migrate, _old_values(rewrite)
    assert migrate is not None

    def made(data: bytes) -> Any:
        stamp, old = read(data)
        return _stamped(stamp, migrate(old))

    return made


def _old_keys(rewrite: Rewrite) -> KeyCodec:
    return KeyCodec(read_type(rewrite.old.key).hint)


def _old_values(rewrite: Rewrite) -> Callable[[bytes], tuple[int | None, Any]]:
    """Reads old values for the program's function, with their stamps if they have some: those stay as they are."""
    read = _old_stored(rewrite)
    if isinstance(rewrite.element.type, AgedType):
        return lambda data: tuple(read(data))
    return lambda data: (None, read(data))


def _stamped(stamp: int | None, value: Any) -> Any:
    return value if stamp is None else (stamp, value)


def _old_stored(rewrite: Rewrite) -> Callable[[bytes], Any]:
    """Reads what is stored: of the type that the function declares, else as plain values."""
    declared = rewrite.element.evolves.old_hint()
    shape = rewrite.shape
    if isinstance(rewrite.element.type, AgedType) and declared is not None:
        declared = _PAIR[int, declared]
    if declared is not None and declared is not Any:
        codec = ValueCodec(declared)
        if shape is not None:
            _check_declared(rewrite, declared)
        return codec.decode
    if shape is None:
        return _plain
    old = OldType(shape)
    return lambda data: old.plain(old.decode(data))


def _plain(data: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, TypeError):
        return decode_loosely(data)


def _check_declared(rewrite: Rewrite, declared: Any) -> None:
    """Refuse a function that declares another old type than the one that values have."""
    assert rewrite.shape is not None
    try:
        if not conversion(rewrite.shape, shape_of(declared), frozenset(), {}).rewrites:
            return
    except Mismatch:
        pass
    raise MigrationError(
        "MP266",
        f"the migrate= function of `{rewrite.element.name}` is for values of another type",
        expected=f"a parameter of type {shape_text(rewrite.shape.root)}, as in the checkpoint",
        found=type_text(declared),
        hint="declare the type that the checkpoint has, or none: then it gets dicts, lists and numbers",
    )


def _guarded(rewrite: Rewrite, keys: KeyCodec, key: bytes, work: Callable[..., Any], *given: Any) -> Any:
    """Return what the work on one entry gives; if it fails, the error names the entry."""
    try:
        return work(*given)
    except InexactError as error:
        raise MigrationError(
            "MP262",
            f"a number of `{rewrite.element.name}` can't become a float without loss",
            expected=f"a number that some float is equal to, for {_shown(keys, key)}",
            found=str(error),
            hint="give the element a migrate= function that rounds, or keep the numbers whole; nothing was changed",
        ) from None
    except MigrationError:
        raise
    except StateError as error:
        expected = error.expected or "a value of the declared type"
        raise _misfit(rewrite, expected, error.found or "", keys, key) from error
    except msgspec.MsgspecError as error:
        raise MigrationError(
            "MP264",
            f"a stored value of `{rewrite.element.name}` is not of the type that the checkpoint records",
            expected=rewrite.old.value,
            found=f"{str(error)[:200]}, for {_shown(keys, key)}",
            hint="`millpond state verify` looks at all files of a checkpoint; nothing was changed",
        ) from error
    except MillpondError:
        raise
    except Exception as error:
        raise _misfit(rewrite, "a new value", f"{type(error).__name__}: {str(error)[:200]}", keys, key) from error


def _misfit(
    rewrite: Rewrite, expected: str, found: str, keys: KeyCodec | None = None, key: bytes = b""
) -> MigrationError:
    at = "" if keys is None else f", for {_shown(keys, key)}"
    return MigrationError(
        "MP263",
        f"values of `{rewrite.element.name}` can't be migrated",
        expected=expected,
        found=found + at,
        hint="correct the migrate= function, or the class; nothing was changed",
    )


def _twice(rewrite: Rewrite, key: bytes) -> MigrationError:
    return MigrationError(
        "MP265",
        f"the migrate= function of `{rewrite.element.name}` gives two entries the same key",
        expected="each key once",
        found=_shown(rewrite.element.type.keys, key),
        hint="give entries keys of their own, or None to all but one of them; nothing was changed",
    )


def _shown(keys: KeyCodec, key: bytes) -> str:
    unit = keys.decode(key[PREFIX_BYTES:])
    return "the value" if unit == () else f"key {shown(unit)}"


def _chunks(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    while some := list(islice(entries, CHUNK_ENTRIES)):
        yield some

"""Values between tasks: self-describing msgpack that keeps the nature of what it carries.

Plain msgpack would turn tuples into lists and vectors into dicts. Here they travel as extension types, so that a
variable is after a cut what it was before it: of the same type all the way down, dicts in their order. Records of the
user's classes travel as their attributes (`records`), and are put together without running code of theirs; which
classes a message may name is said in `classes`.

Sets travel in their canonical order (`canonical`), so that equal sets are equal bytes, and are built from it: what came
over a cut is walked like what came out of state. NaN keeps its nature, but is refused as a member of a set and as
a key: Python finds it there by identity alone, and a copy would never be found.

What is one object in the variables of a message is one after it (`encode_message`): objects that occur twice are found
first (`sharing`), travel once with a number, and by that number from then on.

>>> shared = [1]
>>> first, second, place = decode_values(encode_message((shared, shared, ("a", {2.5}))))
>>> first is second, place
(True, ('a', {2.5}))
"""

from __future__ import annotations

import collections
import datetime
import decimal
import threading
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from millpond.errors import RowError
from millpond.state.codec.adapted import FACTORIES, Nested
from millpond.state.codec.canonical import UNFIT, encode_canonical
from millpond.state.codec.records import put_together, take_apart
from millpond.state.codec.sharing import Twice, carried_parts, objects_twice
from millpond.state.codec.shown import ascii_surrogates, shown
from millpond.state.codec.valuecodec import has_nan
from millpond.state.containers.vector import Vector

_FLAT: Final = frozenset((int, float, str, bytes, bool, type(None)))
_SELF_EQUAL: Final = frozenset((int, str, bytes, bool, type(None)))
(_BIG_INT, _TUPLE, _SET, _FROZENSET, _VECTOR, _TEXT, _DICT, _TIME) = range(1, 9)
(_RECORD, _ARRAY, _SCALAR, _OWN, _OTHER) = range(9, 14)
(_MESSAGE, _FIRST, _AGAIN) = range(14, 17)

_TEXT_TYPES: Final[dict[type, tuple[str, Callable[[str], Any]]]] = {
    datetime.datetime: ("datetime", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    decimal.Decimal: ("decimal", decimal.Decimal),
    uuid.UUID: ("uuid", uuid.UUID),
}
_FROM_TEXT: Final = dict(_TEXT_TYPES.values())
_FACTORIES: Final[dict[str, Any]] = {kind.__name__: kind for kind in FACTORIES}
_NESTED_IN: Final = "defaultdict of "

Parts = tuple[Any, ...]
_own: dict[str, Callable[..., Any]] = {}

_encode = msgspec.msgpack.Encoder().encode


class _Packing(threading.local):
    """The objects that occur twice in the message that a thread packs."""

    twice: Twice | None = None


_packing = _Packing()


def encode_message(values: tuple[Any, ...], names: Sequence[str] = ()) -> bytes:
    """Encode the variables of a message, which may share objects; an error names the variable if `names` are given."""
    try:
        twice = objects_twice(values)
    except RecursionError:
        raise _refused(values, names) from None
    if twice is None:
        return encode_values(values, names)
    if twice.unfit:
        raise _unfit(values, names, 0, _Unfit(twice.unfit))
    _packing.twice = twice
    try:
        return _encode(_ext(_MESSAGE, [_pack(value) for value in values]))
    except (_Unfit, UnicodeEncodeError, RecursionError):
        raise _refused(values, names) from None
    finally:
        _packing.twice = None


def encode_values(values: tuple[Any, ...], names: Sequence[str] = ()) -> bytes:
    """Encode values, each by itself: equal ones are equal bytes, whatever they share."""
    try:
        if _FLAT.issuperset(map(type, values)):
            with suppress(OverflowError):
                return _encode(values)
        return _encode([_pack(value) for value in values])
    except (_Unfit, UnicodeEncodeError, RecursionError):
        raise _refused(values, names) from None


def decode_values(data: bytes) -> list[Any]:
    """Decode the variables of a message."""
    values: list[Any] = _decoder.decode(data)
    return values


def carry(kind: type, name: str, parts: Callable[[Any], Parts], make: Callable[..., Any]) -> None:
    """Let values of a class of Millpond's own travel: as the `parts` that it is made of again by `make(*parts)`."""
    _own[name] = make
    carried_parts[kind] = parts
    _PACKERS[kind] = lambda value: _ext(_OWN, [name, *map(_pack, parts(value))])


class _Unfit(Exception):  # noqa: N818 - it never leaves this module
    """A value that can't travel: what it is, and why."""


def _refused(values: tuple[Any, ...], names: Sequence[str]) -> RowError:
    """Return the error for the first of some variables that can't travel."""
    _packing.twice = None
    for place, value in enumerate(values):
        try:
            _encode(_pack(value))
        except (_Unfit, UnicodeEncodeError, RecursionError) as error:
            return _unfit(values, names, place, error)
    raise AssertionError


def _unfit(values: tuple[Any, ...], names: Sequence[str], place: int, why: Exception) -> RowError:
    name = names[place] if place < len(names) else ""
    # Names with two underscores are the compiler's own, for parts of an expression.
    which = f"`{name}`" if name and "__" not in name else "a variable"
    inside = f"in {shown(values[place])}"
    return RowError(
        "MP601",
        f"{which} is used after the method moves to another task, and its value can't be sent there",
        expected="numbers, text, bytes, dates, None, collections, dataclasses, named tuples, enums, arrays",
        found=ascii_surrogates(f"{_why(why)} {inside}")[:240],
        hint="convert it before the next state access, or build it after",
    )


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested without end or too deeply,"
    return str(error) if isinstance(error, _Unfit) else f"text with a lone surrogate ({error.reason}),"  # type: ignore[attr-defined]


def _pack(value: Any) -> Any:
    kind = type(value)
    if kind in _FLAT:
        if kind is int and not -(2**63) <= value < 2**64:
            data = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
            return msgspec.msgpack.Ext(_BIG_INT, data)
        if kind is not float or value == value:  # noqa: PLR0124 - NaN is one object or another
            return value
    twice = _packing.twice
    if twice is not None and id(value) in twice:
        return _pack_shared(value, twice)
    return _pack_whole(value)


def _pack_shared(value: Any, twice: Twice) -> Any:
    """Return an object that occurs twice: the whole of it with a number, or that number alone."""
    known = twice.number(value)
    if known is not None:
        return _ext(_AGAIN, [known])
    return _ext(_FIRST, [twice.begin(value), _pack_whole(value)])


def _pack_whole(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return value
    if kind is list:
        return [_pack(item) for item in value]
    if kind is tuple:
        return _ext(_TUPLE, [_pack(item) for item in value])
    if kind is dict:
        return _ext(_DICT, _pairs(value))
    packer = _PACKERS.get(kind)
    return _pack_rare(value) if packer is None else packer(value)


def _pack_rare(value: Any) -> Any:
    if isinstance(value, np.generic):
        parts = _scalar_parts(value)
        if parts is not None:
            return _ext(_SCALAR, [_pack(part) for part in parts])
    record = take_apart(value)
    if record is None:
        raise _Unfit(f"{shown(value)},")
    kind, parts_of = record
    return _ext(_RECORD, [kind, *map(_pack, parts_of)])


def _pairs(value: Any) -> list[Any]:
    if not _SELF_EQUAL.issuperset(map(type, value)):
        _check_findable(value)
    return [[_pack(key), _pack(item)] for key, item in value.items()]


def _members(value: Iterable[Any]) -> list[bytes]:
    if _SELF_EQUAL.issuperset(map(type, value)):
        # Their bytes are those of the stored form, but for numbers that have none.
        return sorted([_encode(_pack(item)) for item in value])
    _check_findable(value)
    return [packed for _, packed in sorted((_stored(item), _encode(_pack(item))) for item in value)]


def _stored(member: Any) -> bytes:
    """Return what a member of a set is sorted by: its stored form. What has none comes first, as it travels."""
    try:
        return encode_canonical(member)
    except UNFIT:
        return b""


def _check_findable(keys: Iterable[Any]) -> None:
    if any(map(has_nan, keys)):
        raise _Unfit("NaN as a key or a member, which no copy of it would find,")


def _pack_time(value: datetime.datetime | datetime.time) -> Any:
    text = value.replace(tzinfo=None).isoformat()
    return _ext(_TIME, [_TEXT_TYPES[type(value)][0], text, value.fold, _zone_text(value.tzinfo)])


def _pack_text(value: Any) -> Any:
    return _ext(_TEXT, [_TEXT_TYPES[type(value)][0], str(value)])


def _pack_array(value: Any) -> Any:
    parts = _array_parts(value)
    if parts is None:
        raise _Unfit(f"an array of Python objects ({value.dtype}),")
    return _ext(_ARRAY, [_pack(part) for part in parts])


def _array_parts(array: npt.NDArray[Any]) -> tuple[Any, ...] | None:
    """Return an array as its type, shape, order, writability and bytes; None if it holds Python objects."""
    if array.dtype.hasobject:
        return None
    # Sums over an array follow its layout, and so do their roundings: so the layout travels.
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    kind = np.lib.format.dtype_to_descr(array.dtype)
    return kind, array.shape, order, array.flags.writeable, array.tobytes(order)  # type: ignore[arg-type]


def _array_from(kind: Any, shape: tuple[int, ...], order: str, writeable: bool, data: bytes) -> npt.NDArray[Any]:
    """Return the array of these parts, with memory of its own."""
    dtype = np.lib.format.descr_to_dtype(kind)
    array = np.empty(shape, dtype, order=order)  # type: ignore[call-overload]
    if array.nbytes:
        array[...] = np.frombuffer(data, dtype).reshape(shape, order=order)  # type: ignore[call-overload]
    array.flags.writeable = writeable
    return array  # type: ignore[no-any-return]


def _scalar_parts(scalar: np.generic) -> tuple[Any, ...] | None:
    """Return a NumPy scalar as its type and bytes; text as text, since an array would lose zeros at its end."""
    if scalar.dtype.hasobject:
        return None
    if isinstance(scalar, np.str_):
        # Not str(): NumPy's own cuts zeros off.
        return "U", str.__str__(scalar)
    if isinstance(scalar, np.bytes_):
        return "S", bytes.__getitem__(scalar, slice(None))
    return np.lib.format.dtype_to_descr(scalar.dtype), scalar.tobytes()


def _scalar_from(kind: Any, data: Any) -> Any:
    """Return the scalar of these parts."""
    if kind == "U":
        return np.str_(data)
    if kind == "S":
        return np.bytes_(data)
    return np.frombuffer(data, np.lib.format.descr_to_dtype(kind)).copy()[0]


def _pack_default_dict(value: collections.defaultdict[Any, Any]) -> Any:
    factory = value.default_factory
    name = _factory_name(factory)
    if name is None and factory is not None:
        raise _Unfit(f"a defaultdict of {shown(factory)},")
    return _other("defaultdict", name, _pairs(value))


def _factory_name(factory: Any) -> str | None:
    """Return the name of what makes missing items; None if it has none that travels."""
    if isinstance(factory, Nested):
        inner = "" if factory.inner is None else _factory_name(factory.inner)
        return None if inner is None else f"{_NESTED_IN}{inner}"
    name = getattr(factory, "__name__", "")
    return name if factory is not None and _FACTORIES.get(str(name)) is factory else None


def _factory(name: str | None) -> Any:
    if name is not None and name.startswith(_NESTED_IN):
        return Nested(_factory(name.removeprefix(_NESTED_IN) or None))
    return None if name is None else _FACTORIES.get(name)


def _other(name: str, *parts: Any) -> Any:
    return _ext(_OTHER, [name, *parts])


_PACKERS: Final[dict[type, Callable[[Any], Any]]] = {
    Vector: lambda value: _ext(_VECTOR, _pairs(value)),
    set: lambda value: _ext(_SET, _members(value)),
    frozenset: lambda value: _ext(_FROZENSET, _members(value)),
    datetime.datetime: _pack_time,
    datetime.time: _pack_time,
    datetime.date: _pack_text,
    decimal.Decimal: _pack_text,
    uuid.UUID: _pack_text,
    np.ndarray: _pack_array,
    complex: lambda value: _other("complex", value.real, value.imag),
    datetime.timedelta: lambda value: _other("timedelta", value.days, value.seconds, value.microseconds),
    range: lambda value: _other("range", *map(_pack, (value.start, value.stop, value.step))),
    collections.deque: lambda value: _other("deque", [_pack(item) for item in value], value.maxlen),
    collections.OrderedDict: lambda value: _other("ordered", _pairs(value)),
    collections.Counter: lambda value: _other("counter", _pairs(value)),
    collections.defaultdict: _pack_default_dict,
}


def _counter_of(pairs: list[Any]) -> collections.Counter[Any]:
    counter: collections.Counter[Any] = collections.Counter()
    dict.update(counter, pairs)
    return counter


_MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "complex": complex,
    "timedelta": datetime.timedelta,
    "range": range,
    "deque": collections.deque,
    "ordered": collections.OrderedDict,
    "counter": _counter_of,
    "defaultdict": lambda name, pairs: collections.defaultdict(_factory(name), pairs),
}


def _zone_text(zone: datetime.tzinfo | None) -> str | float | None:
    """Return a time zone as it travels: its name, or its offset from UTC in seconds."""
    if zone is None:
        return None
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is not None:
        return zone.key
    if type(zone) is datetime.timezone:
        return zone.utcoffset(None).total_seconds()
    raise _Unfit(f"a time zone {shown(zone)},")


def _read_time(name: str, text: str, fold: int, zone: str | float | None) -> datetime.datetime | datetime.time:
    time: datetime.datetime | datetime.time = _FROM_TEXT[name](text)
    place: datetime.tzinfo | None = None
    if isinstance(zone, str):
        place = zoneinfo.ZoneInfo(zone)
    elif zone is not None:
        place = datetime.timezone(datetime.timedelta(seconds=zone)) if zone else datetime.UTC
    return time.replace(fold=fold, tzinfo=place)


def _ext(code: int, packed: list[Any]) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(packed))


def _unpack(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _MESSAGE:
        return _Unpacking().read(data)
    return _READERS[code](_decoder.decode(data))


_READERS: Final[dict[int, Callable[[list[Any]], Any]]] = {
    _TUPLE: tuple,
    _DICT: dict,
    _VECTOR: Vector,
    _TEXT: lambda items: _FROM_TEXT[items[0]](items[1]),
    _TIME: lambda items: _read_time(*items),
    _SET: lambda items: set(map(_decoder.decode, items)),
    _FROZENSET: lambda items: frozenset(map(_decoder.decode, items)),
    _RECORD: lambda items: put_together(items[0], items[1:]),
    _ARRAY: lambda items: _array_from(*items),
    _SCALAR: lambda items: _scalar_from(*items),
    _OWN: lambda items: _own[items[0]](*items[1:]),
    _OTHER: lambda items: _MAKERS[items[0]](*items[1:]),
}

_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_unpack)


class _Unpacking:
    """The objects of one message by their numbers."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=self._unpack)

    def read(self, data: memoryview) -> list[Any]:
        values: list[Any] = self._decoder.decode(data)
        return values

    def _unpack(self, code: int, data: memoryview) -> Any:
        if code not in _NESTED:
            return _unpack(code, data)
        parts = self._decoder.decode(data)
        if code == _AGAIN:
            return self._known[parts[0]]
        if code == _FIRST:
            self._known[parts[0]] = parts[1]
            return parts[1]
        return _READERS[code](parts)


_NESTED: Final = frozenset((*_READERS, _FIRST, _AGAIN)) - {_SET, _FROZENSET}
"""What may have objects of the message in it; members of sets are packed by themselves."""

"""Loops as what windows iterate: rows packed by shard, and contexts as plain values of declared types."""

from __future__ import annotations

import datetime
import typing
from collections import namedtuple
from collections.abc import Iterable
from typing import Any, Final

from millpond.errors import LoopError
from millpond.keygroups import moment_at, plain_key
from millpond.loops.combining import shard_of
from millpond.loops.contexts import Context, Frozen
from millpond.loops.lanes import Bounds, Packed
from millpond.loops.loop import Loop, LoopShape, LoopWindow
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition, must_be_condition
from millpond.state.codec.valuecodec import ValueCodec

_TUPLE: Any = tuple
_LIST: Any = list
_DICT: Any = dict

VALUE: Final = "value"
"""The name of the column of results that have no names of their own."""


class LoopKind:
    """A loop over the keys of windows, with the types of keys and rows.

    `columns` are the names of a row's columns with their types: rows that `entry` gets are named tuples of them. The
    type of messages is that of `step`, unless it is given.
    """

    def __init__(
        self,
        loop: type[Loop],
        until: Condition,
        synchrony: Synchrony = strict,
        *,
        key: Any,
        columns: dict[str, Any],
        message: Any = None,
    ) -> None:
        self.loop, self.until, self.synchrony = loop, must_be_condition(until), synchrony
        shape = LoopShape.of(loop)
        self.module = loop.__module__
        self._names = tuple(columns)
        self._row = namedtuple("Row", self._names, rename=True)  # type: ignore[misc] # noqa: PYI024
        hints = shape.attribute_hints
        kept = tuple(hint for name, hint in zip(shape.attributes, hints, strict=True) if name in shape.persistent)
        self.persists = bool(kept)
        self.key_type = key
        self.row_type = _TUPLE[key, int, _TUPLE[tuple(columns.values()) or (bool,)]]
        attributes = _TUPLE[hints] if hints else _TUPLE[()]
        self.inbox_type = _DICT[key, _LIST[message or shape.message_hint]]
        self.stored_type = _TUPLE[
            int,
            bool,
            _DICT[key, attributes],
            _LIST[key],
            self.inbox_type,
            _DICT[str, Any],
        ]
        self.carried_type = _DICT[key, _TUPLE[kept] if kept else _TUPLE[()]]
        self.result_names, parts = _columns_of(shape.result_hint)
        self._wide = typing.get_origin(key) is tuple
        self.result_hints = (*(typing.get_args(key) if self._wide else (key,)), *parts)
        # Whoever names a condition or an aggregate that is not there is told before any row comes.
        Context(loop, self.until, synchrony)

    def __reduce__(self) -> tuple[Any, ...]:
        columns = dict(zip(self._names, typing.get_args(typing.get_args(self.row_type)[2]), strict=False))
        return _again, (self.loop, self.until, self.synchrony, self.key_type, columns)

    @property
    def _codec(self) -> ValueCodec:
        return ValueCodec(_LIST[self.row_type])

    def pack(self, rows: Iterable[tuple[Any, int, Any]]) -> bytes:
        """Return rows as bytes: by key, then time, then their other columns."""
        one = ValueCodec(self.row_type)
        return self._codec.encode(sorted(rows, key=lambda row: (plain_key(row[0]), row[1], one.encode(row))))

    def begin(self, window: Bounds, packed: Packed, carried: Any) -> LoopIteration:
        """Begin the context of a window."""
        made = Context(self.loop, self.until, self.synchrony, window=bounds_of(window), carried=carried)
        made.enter(self.unpack(packed).items())
        return LoopIteration(self, made)

    wide = False
    """Whether a row belongs to the shards of several keys."""

    def shards(self, key: Any, row: Any) -> list[int]:  # noqa: ARG002
        """Return the shards that a row belongs to."""
        return [shard_of(key)]

    def entered(self, shard: int, packed: bytes) -> dict[Any, list[Any]]:
        """Return what `entry` gets in a shard, by key."""
        return self.unpack({shard: packed})

    def unpack(self, packed: Packed) -> dict[Any, list[Any]]:
        """Return what `entry` gets of rows that were packed by shard, by key."""
        by_key: dict[Any, list[Any]] = {}
        codec = self._codec
        for shard in sorted(packed):
            for key, _, row in codec.decode(packed[shard]):
                by_key.setdefault(key, []).append(self._row(*row))
        return by_key

    def thaw(self, window: Bounds, stored: Any, carried: Any) -> LoopIteration:
        """Go on with a context."""
        made = Context.thawed(
            Frozen(*stored), self.loop, self.until, self.synchrony, window=bounds_of(window), carried=carried
        )
        return LoopIteration(self, made)

    def nothing(self) -> Any:
        """Return the persistent state of no key."""
        return {}

    def parts(self, result: Any) -> list[tuple[Any, ...]]:
        """Return the rows of what `finalize` gave."""
        many = result if isinstance(result, list) else [result]
        return [tuple(one) if self.result_names != (VALUE,) else (one,) for one in many]

    def keyed(self, key: Any, result: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a key: the parts of the key, and those of each of its results."""
        own = key if self._wide else (key,)
        return [(*own, *parts) for parts in self.parts(result)]


class LoopIteration:
    """The context of a window, as a lane runs it."""

    def __init__(self, kind: LoopKind, context: Context) -> None:
        self._kind, self._context = kind, context

    @property
    def ended(self) -> bool:
        """Whether only results are left."""
        return self._context.ended

    def advance(self, budget: int | None) -> int:
        """Run rounds up to a budget."""
        return self._context.advance(budget)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a row for each result: the key, and the parts of the result."""
        found = self._context.results()
        return [row for key, result in found.items() for row in self._kind.keyed(key, result)]

    def persisted(self) -> Any:
        """Return the persistent attributes of all keys."""
        return self._context.persisted()

    def stored(self) -> Any:
        """Return the context as plain values."""
        return tuple(self._context.frozen())


def bounds_of(window: Bounds) -> LoopWindow:
    """Return a window as moments in UTC."""
    begin, end = (moment_at(us).replace(tzinfo=datetime.UTC) for us in window)
    return LoopWindow(begin, end)


def _columns_of(hint: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the names and types of the columns of a result: of a named tuple its fields, else one column."""
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint)
        return hint._fields, tuple(hints[name] for name in hint._fields)
    if typing.get_origin(hint) is tuple:
        raise LoopError(
            "MP855",
            "a result has columns without names",
            expected="a named tuple: class Rank(NamedTuple): rank: float",
            found=str(hint)[:80],
        )
    return (VALUE,), (hint,)


def _again(loop: type[Loop], until: Condition, synchrony: Synchrony, key: Any, columns: dict[str, Any]) -> LoopKind:
    return LoopKind(loop, until, synchrony, key=key, columns=columns)

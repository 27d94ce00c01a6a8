"""The class of a loop over keys: `entry`, `step`, `finalize`, and the state that it declares.

One object stands for one key. What it declares by `state(...)` lives as long as the iteration; what it declares by
`persistent(...)` goes on from window to window. Nothing else may be set on it: only what is declared is checkpointed.

>>> from millpond.loops import Loop, persistent, state
>>> class Share(Loop):
...     combine = sum
...     near: list[str] = state(factory=list)
...     rank: float = persistent(1.0)
...
...     def entry(self, rows: list[str]) -> None:
...         self.near = rows
...         self.send_all(rows, self.rank / len(rows))
>>> Share.rank.persists
True
"""

from __future__ import annotations

import datetime
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

from millpond.errors import LoopError
from millpond.loops.combining import Combiner, combiner
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition

_MISSING: Final[Any] = object()
_SHAPES: Final = WeakKeyDictionary[type, Any]()


class LoopWindow(NamedTuple):
    """The window that a loop runs for: from its `begin` up to its `end`, moments in UTC."""

    begin: datetime.datetime
    end: datetime.datetime


class Declared:
    """A declared attribute of a loop: its default, or what makes one, and whether it outlives the iteration."""

    __slots__ = ("_default", "_factory", "name", "persists")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, *, persists: bool) -> None:
        if (default is _MISSING) == (factory is None) or isinstance(default, list | dict | set | bytearray):
            raise LoopError(
                "MP853",
                "state of a loop needs a default",
                expected="state(0.0), or state(factory=list) for what can be changed in place",
                found=repr(default)[:60] if default is not _MISSING else "no default, or two",
            )
        self._default, self._factory, self.persists, self.name = default, factory, persists, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def default(self) -> Any:
        """The value that a key begins with."""
        return self._default if self._factory is None else self._factory()

    def __get__(self, loop: Any, owner: type | None = None) -> Any:
        if loop is None:
            return self
        if self._factory is None:
            return self._default
        made = vars(loop)[self.name] = self._factory()
        return made


def state(default: Any = _MISSING, *, factory: Any = None) -> Any:
    """Declare what a key knows during an iteration, as `distance: float` with a default. It is gone with that."""
    return Declared(default, factory, persists=False)


def persistent(default: Any = _MISSING, *, factory: Any = None) -> Any:
    """Declare state of a key that goes on from window to window; such windows run in the order of event time."""
    return Declared(default, factory, persists=True)


class Around(Protocol):
    """What a key of a loop sees of the run that it is in."""

    round: int
    global_round: int
    window: LoopWindow | None
    enclosing: tuple[int, ...]
    aggregated: Mapping[str, Any]

    def send(self, key: Any, message: Any) -> None:
        """Send a message to a key."""

    def vote(self, value: Any) -> None:
        """Cast a vote in this round."""

    def report(self, name: str, value: Any) -> None:
        """Give a value to an aggregate of this round."""

    def inner(
        self, loop: type[Loop], rows: Mapping[Any, list[Any]], until: Condition, synchrony: Synchrony
    ) -> dict[Any, Any]:
        """Run a loop inside of this round."""


class Loop:
    """The base of loops over keys.

    `entry` is called once for each key that has rows, `step` in each round for keys that have messages, and `finalize`
    at the end for each key that was entered or has state. With a `combine`, a step gets one message. `aggregators` say
    how values that keys report are put together, by name.
    """

    __slots__ = ("__dict__", "_around", "key")

    combine: ClassVar[Any] = None
    aggregators: ClassVar[Mapping[str, Any]] = {}

    key: Any
    _around: Around

    def __init__(self, key: Any, around: Around) -> None:
        self.key = key
        self._around = around

    def entry(self, rows: list[Any]) -> None:
        """Begin with the rows of the key in the window."""

    def step(self, messages: list[Any]) -> None:
        """Work on the messages of a round."""

    def finalize(self) -> Any:
        """Return the result of the key: a value, a named tuple, a list of them, or None for no result."""
        return None

    @property
    def round(self) -> int:
        """The round of this key: 0 in `entry`, from 1 on in `step`."""
        return self._around.round

    @property
    def global_round(self) -> int:
        """The last round that all keys have behind them."""
        return self._around.global_round

    @property
    def window(self) -> LoopWindow | None:
        """The window, if the loop runs over windows."""
        return self._around.window

    @property
    def enclosing(self) -> tuple[int, ...]:
        """The rounds of the loops around this one, innermost first."""
        return self._around.enclosing

    def send(self, key: Any, message: Any) -> None:
        """Send a message to a key, which gets it in the next round."""
        self._around.send(key, message)

    def send_all(self, keys: Iterable[Any], message: Any) -> None:
        """Send one message to several keys."""
        for key in keys:
            self._around.send(key, message)

    def vote(self, value: Any = True) -> None:
        """Cast a vote in this round, for `when(...)`."""
        self._around.vote(value)

    def report(self, name: str, value: Any) -> None:
        """Give a value to an aggregate of this round, for `within(...)` and for `aggregated` in the next one."""
        self._around.report(name, value)

    def aggregated(self, name: str, default: Any = None) -> Any:
        """Return what all keys reported in the last round, put together."""
        return self._around.aggregated.get(name, default)

    def iterate(
        self,
        loop: type[Loop],
        rows: Mapping[Any, list[Any]],
        *,
        until: Condition,
        synchrony: Synchrony = strict,
    ) -> dict[Any, Any]:
        """Run a loop inside of this step, over keys with their rows; return its results by key.

        Its context is this window and this round.
        """
        return self._around.inner(loop, rows, until, synchrony)


@dataclass(frozen=True)
class LoopShape:
    """What is known of a loop's class: its attributes, how messages are combined, and the types that are stored."""

    loop: type[Loop]
    attributes: tuple[str, ...]
    persistent: tuple[str, ...]
    combine: Combiner | None
    aggregators: Mapping[str, Combiner]
    defaults: Mapping[str, Declared]

    @staticmethod
    def of(loop: type[Loop]) -> LoopShape:
        """Return the shape of a class, or refuse what is no loop."""
        given: object = loop
        if not isinstance(given, type) or not issubclass(given, Loop):
            raise LoopError("MP854", "this is no loop", expected="a class derived from Loop", found=repr(loop)[:60])
        known = _SHAPES.get(loop)
        if known is None:
            known = _SHAPES[loop] = _shape(loop)
        return known

    @property
    def attribute_hints(self) -> tuple[Any, ...]:
        """The types of the attributes, which a checkpoint needs."""
        hints = typing.get_type_hints(self.loop)
        missing = [name for name in self.attributes if name not in hints]
        if missing:
            raise self._untyped(f"{missing[0]}: float = state(...)", missing[0])
        return tuple(hints[name] for name in self.attributes)

    @property
    def message_hint(self) -> Any:
        """The type of messages, as `step` declares it."""
        return self._item("step", "messages", "def step(self, messages: list[float]) -> None")

    @property
    def result_hint(self) -> Any:
        """The type of one result, as `finalize` declares it; a list of results and None are left out."""
        hint = typing.get_type_hints(self.loop.finalize).get("return", Any)
        if hint is Any:
            raise self._untyped("def finalize(self) -> float, or -> a named tuple", "finalize")
        parts = [one for one in typing.get_args(hint) if one is not type(None)] if _is_optional(hint) else [hint]
        inner = parts[0] if len(parts) == 1 else typing.Union[tuple(parts)]  # noqa: UP007
        return typing.get_args(inner)[0] if typing.get_origin(inner) is list else inner

    def _item(self, method: str, parameter: str, expected: str) -> Any:
        hint = typing.get_type_hints(getattr(self.loop, method)).get(parameter)
        found = typing.get_args(hint)
        if typing.get_origin(hint) is not list or not found or found[0] is Any:
            raise self._untyped(expected, method)
        return found[0]

    def _untyped(self, expected: str, found: str) -> LoopError:
        return LoopError(
            "MP855",
            f"{self.loop.__name__} does not declare a type that a checkpoint or a column needs",
            expected=expected,
            found=f"`{found}` without one",
        )

    def has_state(self, one: Loop) -> bool:
        """Say whether a key has loop state: an attribute that differs from its default."""
        found = ((name, value) for name, value in vars(one).items() if name not in self.persistent)
        return any(name not in self.attributes or value != self.defaults[name].default for name, value in found)

    def values(self, one: Loop) -> tuple[Any, ...]:
        """Return the attributes of a key as they are stored, and refuse others."""
        strange = sorted(vars(one).keys() - set(self.attributes))
        if strange:
            raise LoopError(
                "MP856",
                f"{self.loop.__name__} has set an attribute that is not declared, and would be lost",
                expected=f"{strange[0]}: ... = state(...) in the class",
                found=f"self.{strange[0]} = ...",
                hint="or use a variable of the method",
            )
        return tuple([getattr(one, name) for name in self.attributes])


def _is_optional(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


def _shape(loop: type[Loop]) -> LoopShape:
    found: dict[str, Declared] = {}
    for base in reversed(loop.__mro__):
        for name, member in vars(base).items():
            found.pop(name, None)
            if isinstance(member, Declared):
                found[name] = member
    # A function that is an attribute of the class would be bound as a method.
    given = next((vars(base)["combine"] for base in loop.__mro__ if "combine" in vars(base)), None)
    own = given.__func__ if isinstance(given, staticmethod) else given
    return LoopShape(
        loop,
        tuple(sorted(found)),
        tuple(sorted(name for name, one in found.items() if one.persists)),
        None if own is None else combiner(cast("object", own)),
        {name: combiner(one) for name, one in loop.aggregators.items()},
        found,
    )

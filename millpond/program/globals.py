"""Global access and collection: `each` asks every instance of a partial element, `merged` makes one of the answers.

>>> from millpond import Counter
>>> merged(each(Counter({"mill": 2}))["mill"], sum)
2
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

from millpond.errors import ProgramError
from millpond.state.containers.vector import Vector
from millpond.state.copying import copied

T = TypeVar("T")
R = TypeVar("R")


class Collected:
    """The answers of all instances to one question, in the order of the instances; only `merged` can open it."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __repr__(self) -> str:
        return f"Collected({self.values!r})"


class Each:
    """Every instance of a partial element at once; an operation on it is done on each."""

    __slots__ = ("_instances",)

    def __init__(self, instances: Sequence[Any]) -> None:
        self._instances = instances

    def __getattr__(self, name: str) -> Callable[..., Collected]:
        def ask_all(*args: Any, **kwargs: Any) -> Collected:
            return Collected([_answer(getattr(instance, name)(*args, **kwargs)) for instance in self._instances])

        return ask_all

    # Without these, `x in each(...)` and `for x in each(...)` would try the keys 0, 1, 2, ... for ever.
    __contains__ = None
    __iter__ = None

    def __setitem__(self, key: Any, value: Any) -> None:
        for instance in self._instances:
            instance[key] = value

    def __delitem__(self, key: Any) -> None:
        for instance in self._instances:
            del instance[key]

    def __getitem__(self, key: Any) -> Collected:
        return Collected([_answer(instance[key]) for instance in self._instances])


def _answer(value: Any) -> Any:
    """Return what an instance answers, as it comes to `merged` from elsewhere, with copies of objects."""
    if isinstance(value, Vector):
        # It is made for the answer.
        return value
    return copied(list(value) if isinstance(value, KeysView | ValuesView | ItemsView | Iterator) else value)


def each(element: T) -> T:
    """Ask all instances of a partial element one question, as in `each(self.together).multiply(row)`.

    In plain Python there is one instance. The result has one value per instance, and only `merged` can use it.

    A change reaches all of them, as a broadcast: `each(self.rules)[name] = rule`, `each(self.flags).add(flag)`. If
    nothing else changes the element, every record meets the same in its own instance, as in plain Python.
    """
    known = _instances.get()
    return cast("T", Each((element,) if known is None else known.get(id(element), (element,))))


_instances: Final[ContextVar[Mapping[int, Sequence[Any]] | None]] = ContextVar("instances", default=None)


@contextmanager
def asking(instances: Mapping[int, Sequence[Any]]) -> Iterator[None]:
    """Let `each` ask all instances of an element while the block runs; they are known by the id of any of them."""
    token = _instances.set(instances)
    try:
        yield
    finally:
        _instances.reset(token)


def merged(values: T, merge: Callable[[list[T]], R]) -> R:
    """Reconcile the answers of all instances by `merge`, which takes them as a list, e.g. `sum`."""
    if not isinstance(values, Collected):
        raise ProgramError(
            "MP106",
            "merged() is not given what each() returned",
            expected="merged(each(self.state).method(...), function)",
            found=f"{type(values).__name__}: {values!r}"[:80],
        )
    return merge(values.values)

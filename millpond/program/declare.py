"""State declarations: which elements a program has, of which types, and how they are distributed.

>>> from millpond import Map, Program
>>> class Shop(Program):
...     stock = Partitioned(Map[str, int], ttl="30 minutes")
...     sales = Partial(Map[str, int], merge=sum)
>>> list(Shop.elements().values())
[Partitioned(Map[str, int]), Partial(Map[str, int])]
"""

from __future__ import annotations

import contextlib
import copy
import enum
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from millpond.errors import EpochError, MillpondError, ProgramError
from millpond.lengths import Length, length_us
from millpond.program.durability import BoundedLoss, ElementLevel, element_durability
from millpond.program.evolution import NOTHING_SAID, Evolves, Migrate, Renamed
from millpond.program.places import class_body_place
from millpond.state.containers.element import ElementType
from millpond.state.containers.list import List
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.value import Value
from millpond.state.expiry import AgedType, Clock, Refresh, Ttl, expiring_entries
from millpond.state.journal import Journal

T = TypeVar("T")

OnScaleOut: TypeAlias = Literal["empty", "copy", "split"]
"""What the instances of a partial element begin with when there are more of them than before."""

Merge: TypeAlias = Callable[[list[Any]], Any]
"""Makes one of what several instances hold, given in the order of the instances."""


class Distribution(enum.Enum):
    """How an element is spread over partitions."""

    PARTITIONED = "partitioned"
    PARTIAL = "partial"


class Element:
    """A declared state element of a program; on an instance of the program, its name is the container itself."""

    def __init__(
        self,
        declared: Any,
        distribution: Distribution,
        by: str | None,
        *,
        on_scale_out: OnScaleOut = "empty",
        merge: Merge | None = None,
        evolves: Evolves = NOTHING_SAID,
        ttl: Ttl | None = None,
        durability: ElementLevel | BoundedLoss | None = None,
    ) -> None:
        self.type = ElementType.parse(declared, by)
        self.distribution = distribution
        self.name = ""
        _check_scaling(self.type, on_scale_out, merge)
        self.on_scale_out = on_scale_out
        self.merge = merge
        self.evolves = evolves
        self.ttl = ttl
        self.durability = element_durability(durability)
        _check_bounded_loss(self)

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name:
            raise ProgramError(
                "MP101",
                "one declaration is used for two names",
                expected="one declaration each",
                found=f"{self.name}, {name}",
                hint="write Partitioned(...) or Partial(...) once for each name",
            )
        self.name = name

    def in_program(self, program: type) -> Element:  # noqa: ARG002
        """Return the element as a program has it, whose class may have inherited it."""
        return self

    @property
    def partial(self) -> bool:
        """Whether the element has instances that diverge."""
        return self.distribution is Distribution.PARTIAL

    def plain(self, journal: Journal, clock: Clock, turn: Clock | None = None) -> Any:
        """Return the element's container for a plain Python run, in which the clock tells the time of the row.

        `turn` tells its moment from others, if that is not the time alone.
        """
        if self.ttl is None:
            return self.type.wrap(self.type.plain(journal))
        aged = expiring_entries(self.type, self.ttl, clock, turn=turn, journal=journal, checked=True, watched=True)
        return self.type.wrap(aged)

    def stored(self) -> dict[str, Element]:
        """Return the elements of a checkpoint that hold this one, by name, each of the type that is stored."""
        if self.ttl is None:
            return {self.name: self}
        aged = copy.copy(self)
        aged.type = AgedType.of(self.type)
        return {self.name: aged}

    def __repr__(self) -> str:
        by = f", by={self.type.by!r}" if self.type.by else ""
        return f"{self.distribution.name.capitalize()}({self.type.text}{by})"


def _check_bounded_loss(element: Element) -> None:
    if isinstance(element.durability, BoundedLoss) and element.type.container is List:
        raise EpochError(
            "MP497",
            "a List can't be saved item by item: some could be missing between others",
            expected="a bounded loss for a Map, Counter, Set, Vector, Matrix or Value",
            found=f"{element.type.text}, durability={element.durability}",
            hint="leave it exactly once, or keep the list as the value of a Map",
        )


def _check_scaling(declared: ElementType, on_scale_out: str, merge: object) -> None:
    policies = get_args(OnScaleOut)
    if on_scale_out not in policies:
        raise ProgramError(
            "MP195",
            "there is no such on_scale_out policy",
            expected=", ".join(f'"{policy}"' for policy in policies),
            found=repr(on_scale_out)[:60],
        )
    if on_scale_out == "split" and declared.container is Value:
        raise ProgramError(
            "MP196",
            "a value can't be split, since it is one entry",
            expected='on_scale_out="empty" or "copy"',
            found=f'Partial({declared.text}, on_scale_out="split")',
            hint="keep what can be divided under keys, e.g. in a Map or a Counter",
        )
    if merge is not None and not callable(merge):
        raise ProgramError(
            "MP197",
            "merge= is not a function",
            expected="a function of a list of values, such as sum or one of millpond.merges",
            found=repr(merge)[:60],
        )


def _ttl(length: Length | None, refresh: str) -> Ttl | None:
    kinds = get_args(Refresh)
    if refresh not in kinds:
        raise ProgramError(
            "MP186",
            "there is no such way to refresh an entry",
            expected=", ".join(f'"{kind}"' for kind in kinds),
            found=repr(refresh)[:60],
        )
    if length is None and refresh == "write":
        return None
    return Ttl(length_us(length, "ttl", _no_ttl, least=1), cast("Refresh", refresh))


def _no_ttl(expected: str, found: str) -> ProgramError:
    return ProgramError("MP185", "ttl= is not a length of time", expected=expected, found=found)


def _check_ttl(element: Element) -> None:
    if element.ttl is not None and element.type.container in (List, Matrix):
        raise ProgramError(
            "MP187",
            f"a {element.type.container.__name__} can't have a time to live: its parts are not entries by themselves",
            expected="ttl= for a Map, Counter, Vector, Set or Value",
            found=f"Partitioned({element.type.text}, ttl=...)",
            hint="keep the parts under keys of their own, e.g. in a Map by tuple",
        )


@contextlib.contextmanager
def _placed(frame: types.FrameType) -> Iterator[None]:
    """Let what is refused be refused at the line of the declaration."""
    try:
        yield
    except MillpondError as error:
        places = class_body_place(frame)
        if error.places or not places:
            raise
        raise error.placed(places) from None


def Partitioned(  # noqa: N802
    declared: type[T],
    *,
    by: str | None = None,
    was: str | None = None,
    renamed: Renamed | None = None,
    migrate: Migrate | None = None,
    ttl: Length | None = None,
    refresh: Refresh = "write",
    durability: ElementLevel | BoundedLoss | None = None,
) -> T:
    """Declare state that is split by key: every access names the key that it touches.

    A matrix is split by row (the default) or by column. A `Value` or a `List` has a single owner.

    With `ttl`, an entry is as absent once `self.now` is that long after its last write, or with `refresh="access"`
    after its last access (docs/TIME.md).

    `durability` is this element's own, whatever the job's is: `"exactly_once"`, or `"bounded_loss"` where one with a
    lost host is borne (docs/DURABILITY.md).

    The rest is for a checkpoint of an older program (docs/EVOLUTION.md): `was` is the element's old name, `renamed` is
    how fields of its records are called now, and `migrate` makes new values of old ones where types differ too much.
    """
    with _placed(sys._getframe(1)):  # noqa: SLF001
        evolves = Evolves(was, renamed or {}, migrate)
        element = Element(
            declared, Distribution.PARTITIONED, by, evolves=evolves, ttl=_ttl(ttl, refresh), durability=durability
        )
        _check_ttl(element)
    return cast("T", element)


def Partial(  # noqa: N802
    declared: type[T],
    *,
    by: str | None = None,
    on_scale_out: OnScaleOut = "empty",
    merge: Merge | None = None,
    was: str | None = None,
    renamed: Renamed | None = None,
    migrate: Migrate | None = None,
    durability: ElementLevel | BoundedLoss | None = None,
) -> T:
    """Declare state with instances that diverge: each record meets one; `each` reads all, `merged` reconciles them.

    When a checkpoint gets more instances, each of those that were has one or several heirs. `on_scale_out` says what
    they begin with: the first heir with all of it and the others `"empty"`; each with a `"copy"`, which is right where
    instances are averaged or united (weights, centroids, sets) and wrong where they are added up, since a sum would
    count twice; or each with a part (`"split"`, not for a `Value`). When it gets fewer, `merge` makes one of several:
    it is given what the instances hold for an entry, in their order, and gives the entry that stays.
    docs/GUARANTEES.md tells all of it. `was`, `renamed`, `migrate` and `durability` are as in
    `Partitioned`.
    """
    with _placed(sys._getframe(1)):  # noqa: SLF001
        evolves = Evolves(was, renamed or {}, migrate)
        element = Element(
            declared,
            Distribution.PARTIAL,
            by,
            on_scale_out=on_scale_out,
            merge=merge,
            evolves=evolves,
            durability=durability,
        )
    return cast("T", element)

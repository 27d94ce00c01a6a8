"""State declarations: which elements a program has, of which types, and how they are distributed."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from millpond.errors import ProgramError
from millpond.state.element import ElementType
from millpond.state.value import Value

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
    ) -> None:
        self.type = ElementType.parse(declared, by)
        self.distribution = distribution
        self.name = ""
        _check_scaling(self.type, on_scale_out, merge)
        self.on_scale_out = on_scale_out
        self.merge = merge

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name:
            raise ProgramError(
                "MP101",
                "one declaration is used for two names",
                expected="one declaration each",
                found=f"{self.name}, {name}",
            )
        self.name = name

    @property
    def partial(self) -> bool:
        """Whether the element has instances that diverge."""
        return self.distribution is Distribution.PARTIAL

    def plain(self) -> Any:
        """The element's container for a plain Python run."""
        return self.type.wrap(self.type.plain())

    def __repr__(self) -> str:
        by = f", by={self.type.by!r}" if self.type.by else ""
        return f"{self.distribution.name.capitalize()}({self.type.text}{by})"


def _check_scaling(declared: ElementType, on_scale_out: str, merge: object) -> None:
    policies = get_args(OnScaleOut)
    if on_scale_out not in policies:
        raise ProgramError(
            "MP195",
            "no such policy for more instances",
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
            "merge= takes a function",
            expected="a function of a list of values, such as sum or one of millpond.merges",
            found=repr(merge)[:60],
        )


def Partitioned(declared: type[T], *, by: str | None = None) -> T:  # noqa: N802
    """Declare state that is split by key: every access names the key that it touches.

    A matrix is split by row (the default) or by column. A `Value` or a `List` has a single owner.
    """
    return cast("T", Element(declared, Distribution.PARTITIONED, by))


def Partial(  # noqa: N802
    declared: type[T], *, by: str | None = None, on_scale_out: OnScaleOut = "empty", merge: Merge | None = None
) -> T:
    """Declare state with instances that diverge: each record meets one; `each` reads all, `merged` reconciles them.

    When a checkpoint gets more instances, each of those that were has one or several heirs. `on_scale_out` says what
    they begin with: the first heir with all of it and the others `"empty"`; each with a `"copy"`, which is right where
    instances are averaged or united (weights, centroids, sets) and wrong where they are added up, since a sum would
    count twice; or each with a part (`"split"`, not for a `Value`). When it gets fewer, `merge` makes one of several:
    it is given what the instances hold for an entry, in their order, and gives the entry that stays.
    docs/GUARANTEES.md tells all of it.
    """
    return cast("T", Element(declared, Distribution.PARTIAL, by, on_scale_out=on_scale_out, merge=merge))

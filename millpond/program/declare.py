"""State declarations: which elements a program has, of which types, and how they are distributed."""

from __future__ import annotations

import enum
from typing import Any, TypeVar, cast

from millpond.errors import ProgramError
from millpond.state.element import ElementType

T = TypeVar("T")


class Distribution(enum.Enum):
    """How an element is spread over partitions."""

    PARTITIONED = "partitioned"
    PARTIAL = "partial"


class Element:
    """A declared state element of a program; on an instance of the program, its name is the container itself."""

    def __init__(self, declared: Any, distribution: Distribution, by: str | None) -> None:
        self.type = ElementType.parse(declared, by)
        self.distribution = distribution
        self.name = ""

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


def Partitioned(declared: type[T], *, by: str | None = None) -> T:  # noqa: N802
    """Declare state that is split by key: every access names the key that it touches.

    A matrix is split by row (the default) or by column. A `Value` or a `List` has a single owner.
    """
    return cast("T", Element(declared, Distribution.PARTITIONED, by))


def Partial(declared: type[T], *, by: str | None = None) -> T:  # noqa: N802
    """Declare state with instances that diverge: each record meets one; `each` reads all, `merged` reconciles them."""
    return cast("T", Element(declared, Distribution.PARTIAL, by))

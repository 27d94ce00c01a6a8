"""What somebody wants applied to a checkpoint, one kind of epoch for each: rows, time that moves on, or upkeep.

>>> str(Batch("recommendations", 3, ("ratings",))), str(Rescaled(16)), str(Loaded("films"))
('batch 3 of query recommendations', 'a rescale to 16 instances', 'the load `films`')
"""

from __future__ import annotations

import re

import msgspec

from millpond.checkpoint.records.claims import claim

_MARK = re.compile(r"[0-9a-f]{16}")
_INSTANCES_MAX = 99_999


class _Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all offers have in common: a manifest tells them apart by a tag."""


class Batch(_Kind, frozen=True, tag="batch"):
    """A batch of a stream: Spark's query, the number that it gives the batch, and the feeds."""

    query: str
    number: int
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        claim(self.query != "", "query", "a name", self.query)
        claim(self.number >= 0, "number", "0 or more", self.number)

    def __str__(self) -> str:
        return f"batch {self.number} of query {self.query}"


class BoundedRun(_Kind, frozen=True, tag="run"):
    """The only batch of a bounded run, which is applied once by its name."""

    name: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        claim(self.name != "", "name", "a name", self.name)

    def __str__(self) -> str:
        return f"run {self.name}"


class Ticked(_Kind, frozen=True, tag="tick"):
    """Time that moves on without rows of any feed: timers that are due fire."""

    def __str__(self) -> str:
        return "a tick"


class Rescaled(_Kind, frozen=True, tag="rescale"):
    """Another number of instances of partial state."""

    instances: int

    def __post_init__(self) -> None:
        claim(1 <= self.instances <= _INSTANCES_MAX, "instances", f"1 to {_INSTANCES_MAX}", self.instances)

    def __str__(self) -> str:
        return f"a rescale to {self.instances} instances"


class Evolved(_Kind, frozen=True, tag="evolution"):
    """Other state elements, by the mark that `elements_mark` gives those that come out of it."""

    mark: str

    def __post_init__(self) -> None:
        claim(_MARK.fullmatch(self.mark) is not None, "mark", "the mark of some elements", self.mark)

    def __str__(self) -> str:
        return "a change of state elements"


class Loaded(_Kind, frozen=True, tag="load"):
    """Entries put into a state element, once by the name of the load."""

    name: str

    def __post_init__(self) -> None:
        claim(self.name != "", "name", "a name", self.name)

    def __str__(self) -> str:
        return f"the load `{self.name}`"


class Lost(_Kind, frozen=True, tag="loss"):
    """Going on without what was lost with a host."""

    def __str__(self) -> str:
        return "what was lost with a host"


class Forked(_Kind, frozen=True, tag="fork"):
    """The first manifest of a fork, with the uuid of its base; nobody ever offers one."""

    base: str

    def __str__(self) -> str:
        return f"forked from {self.base}"


Upkeep = Rescaled | Evolved | Loaded | Lost | Forked
"""Kinds of epochs that no rows and no timers run in: the state is changed as a whole, and all else goes on."""

Offer = Batch | BoundedRun | Ticked | Upkeep


def sources_of(offer: Offer) -> tuple[str, ...]:
    """Return the feeds whose rows are applied, in their order; none if there are no rows."""
    return offer.sources if isinstance(offer, Batch | BoundedRun) else ()

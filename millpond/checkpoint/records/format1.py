"""Manifests of format 1, read as those of today.

Format 1 told the kind of an epoch by how its `query` began, and times by counters with names of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from millpond.checkpoint.records.claims import claim
from millpond.checkpoint.records.offers import (
    Batch,
    BoundedRun,
    Evolved,
    Forked,
    Loaded,
    Lost,
    Offer,
    Rescaled,
    Ticked,
    sources_of,
)
from millpond.checkpoint.records.times import EventTimes, FeedMark, Times

_TIME = "total.time."
"""How the counters began that told of time."""


class _Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch, or what its query said instead."""

    query: str
    batch: int
    sources: tuple[str, ...]

    def renewed(self) -> Offer:
        """Return the offer as it is told now; the batch of what is no stream was 0."""
        kind, colon, name = self.query.partition(":")
        match kind + colon:
            case "run:":
                found: Offer = BoundedRun(name, self.sources)
            case "rescale:":
                found = Rescaled(int(name))
            case "evolve:":
                found = Evolved(name)
            case "load:":
                found = Loaded(name)
            case "tick:":
                found = Ticked()
            case "loss:":
                found = Lost()
            case "fork:":
                found = Forked(name)
            case _:
                return Batch(self.query, self.batch, self.sources)
        claim(self.batch == 0, "batch", "0, since this is one epoch", self.batch)
        claim(sources_of(found) == self.sources, "sources", "none, since no rows are fed", self.sources)
        return found


def renewed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a manifest of format 1, called and told as they are now."""
    later = {"offer", "times"} & fields.keys()
    claim(not later, "format", "no fields of a later format", sorted(later))
    found = dict(fields)
    told = {name: found.pop(name) for name in ("query", "batch", "sources") if name in found}
    stream = msgspec.convert(found.get("stream"), _Offer | None)
    counters = msgspec.convert(found.get("counters"), dict[str, int])
    found["counters"] = {name: count for name, count in counters.items() if not name.startswith(_TIME)}
    found["times"] = _times({name.removeprefix(_TIME): us for name, us in counters.items() if name.startswith(_TIME)})
    found["offer"] = msgspec.convert(told, _Offer).renewed()
    found["stream"] = None if stream is None else stream.renewed()
    return found


def _times(told: Mapping[str, int]) -> Times:
    """Return the times that counters told."""
    heard = {name.removeprefix("heard."): us for name, us in told.items() if name.startswith("heard.")}
    feeds = {name: FeedMark(us, told.get(f"seen.{name}")) for name, us in heard.items()}
    return Times(
        now_us=told.get("now"),
        fed_us=told.get("fed"),
        soonest_us=told.get("soonest"),
        over=tuple(sorted((int(name[5:]), us) for name, us in told.items() if name.startswith("over."))),
        event=EventTimes(told.get("watermark"), told.get("horizon"), bool(told.get("ended")), feeds) if feeds else None,
        told_us=told.get("told"),
        turn=told.get("turn"),
    )

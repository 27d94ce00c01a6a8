"""What users say about elastic jobs: `elastic="act"`, or `Elastic(...)` with limits of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from millpond.engine.elastic.observed import Policy
from millpond.errors import ElasticError
from millpond.lengths import Length, length_us
from millpond.spelling import in_seconds_no_more

Mode = Literal["off", "advise", "act"]
"""What comes of a decision: nothing is decided, it is told, or it is done."""


@in_seconds_no_more
@dataclass(frozen=True, slots=True)
class Elastic:
    """When partitions are added or taken away, and key groups moved; docs/ELASTIC.md tells all of it.

    There are from `least` to `most` partitions; None is as many as the session's `spark.sql.shuffle.partitions`. They
    are added if all are at work for more than `busy` of the time, and taken away if the rest would stay well below it.
    Key groups move if one partition costs more than `uneven` times what it need, or if an executor takes more than
    `slow` times as long for a row as others. Each must hold for so many `reports` in a row, one for each epoch. Epochs
    whose tasks all take less than `ignored` are not looked at. A `policy` of your own decides instead.
    """

    mode: Mode = "act"
    least: int = 1
    most: int | None = None
    busy: float = 0.6
    uneven: float = 1.4
    slow: float = 2.0
    reports: int = 3
    ignored: Length = timedelta(milliseconds=50)
    policy: Policy | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise _wrong('mode="off", "advise" or "act"', self.mode)
        for name in ("least", "reports"):
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise _wrong(f"{name}= a whole number from 1 on", number)
        most: object = self.most
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < self.least):
            raise _wrong(f"most= a whole number from {self.least} (least) on", most)
        for name, above, up_to in (("busy", 0, 1), ("uneven", 1, 1000), ("slow", 1, 1000)):
            figure: object = getattr(self, name)
            if not isinstance(figure, int | float) or isinstance(figure, bool) or not above < figure <= up_to:
                raise _wrong(f"{name}= a number above {above}, up to {up_to}", figure)
        _ = self.ignored_s

    @property
    def ignored_s(self) -> float:
        """Below how many seconds of its longest task an epoch is not looked at."""
        return length_us(self.ignored, "ignored", _refused) / 1_000_000

    @property
    def decides(self) -> bool:
        """Whether anything is looked at."""
        return self.mode != "off"


def elastic_of(given: Mode | Elastic) -> Elastic:
    """Return the options that a word stands for."""
    return given if isinstance(given, Elastic) else Elastic(mode=given)


def _wrong(expected: str, found: object) -> ElasticError:
    return _refused(expected, repr(found)[:60])


def _refused(expected: str, found: str) -> ElasticError:
    return ElasticError("MP681", "elastic= does not take this", expected=expected, found=found, hint="docs/ELASTIC.md")

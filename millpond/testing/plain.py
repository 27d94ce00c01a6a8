"""The same rows in plain Python, and what is different.

>>> from millpond import Counter, Partitioned, Program, entry
>>> class Words(Program):
...     counts = Partitioned(Counter[str])
...
...     @entry
...     def add(self, word: str) -> int:
...         self.counts[word] += 1
...         return self.counts[word]
>>> from millpond.testing import simulate
>>> assert_equals_plain(simulate(Words, [("add", "mill"), ("add", "mill")]))
"""

from __future__ import annotations

import copy
import datetime
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from itertools import repeat
from typing import Any, Final, TypeAlias

from millpond.errors import Aborted, FeedError
from millpond.program import ProgramBase
from millpond.program.semantics.epoch_time import epoch_time, event_time, moment_of
from millpond.program.timers import Fired, fire_timers, timer_elements
from millpond.state.codec.adapted import object_parts
from millpond.state.codec.classes import is_plain_object
from millpond.state.timers import LAST_US
from millpond.testing.run import START, EpochReport, LeftOut, Refused, Run
from millpond.testing.values import plain_state

Merge: TypeAlias = Callable[[list[Any]], Any]
"""Makes one of the values that instances have under a key."""

DIFFERENCES_MAX: Final = 20
"""So many differences are shown."""

_NOTHING: Final = "nothing"
"""Stands for what is not there at all."""


def assert_equals_plain(run: Run, *, merge: Mapping[str, Merge] | None = None) -> None:
    """Call a plain instance of the program with the rows of a run, and raise an `AssertionError` if anything differs.

    Replies, what handlers replied, and the state are compared; rows and epochs have the times that they had in the run.
    `merge` says by element how the instances of partial state become one, key by key, as `Partial(..., merge=...)`
    does. An entry point that is relaxed equals plain Python if each row is alone in its epoch.

    >>> from millpond import Counter, Partial, Program, entry
    >>> from millpond.testing import simulate
    >>> class Words(Program):
    ...     counts = Partial(Counter[str])
    ...
    ...     @entry
    ...     def add(self, line: str) -> None:
    ...         for word in line.split():
    ...             self.counts[word] += 1
    >>> assert_equals_plain(simulate(Words, [("add", "mill pond"), ("add", "mill")]), merge={"counts": sum})
    """
    plain = _Plain(run)
    plain.play()
    merges = {name: element.merge for name, element in run.program.elements().items() if element.merge is not None}
    state = _whole(run, {**merges, **(merge or {})})
    found = [
        *_different_replies(run, plain.replies),
        *_different("fired", dict(enumerate(plain.emitted())), dict(enumerate(run.fired))),
        *(line for name in state for line in _different(f"state {name}", plain.state[name], state[name])),
    ]
    if found:
        more = [f"and {len(found) - DIFFERENCES_MAX} more"] if len(found) > DIFFERENCES_MAX else []
        summary = f"the run of {run.program.__name__} differs from plain Python"
        raise AssertionError("\n  ".join([summary, *found[:DIFFERENCES_MAX], *more]))


class _Plain:
    """A plain instance that is called with the rows of a run, at the times of its epochs."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._program: ProgramBase = run.program()
        self._marks = EpochReport(0, 0, 0, START)
        self.replies: list[Any] = []
        self._fired: list[Fired] = []
        self.state: dict[str, Any] = {}

    def play(self) -> None:
        """Take all epochs one after the other, those of ticks too."""
        rows = {turn.number: turn for turn in self._run.turns if turn.rows}
        for report in self._run.reports:
            with epoch_time(report.now):
                if report.rows:
                    turn = rows[report.epoch]
                    self.replies += map(self._reply, turn.rows, turn.times_us or repeat(None))
                self._fire(report)
            self._marks = report
        with epoch_time(self._marks.horizon or self._marks.now):
            self.state = plain_state(self._program)

    def emitted(self) -> list[Fired]:
        """Return what handlers replied that give replies."""
        points = self._run.program.entries()
        return [fired for fired in self._fired if points[fired.handler].replies]

    def _given(self, name: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the arguments of a row by name; a null column takes the default of its parameter."""
        point = self._run.program.entries()[name]
        defaults = dict(point.defaults)
        given = zip((column for column, _ in point.parameters), arguments, strict=False)
        return {column: value for column, value in given if value is not None or column not in defaults}

    def _reply(self, row: tuple[str, tuple[Any, ...]], time_us: int | None) -> Any:
        name, arguments = row
        horizon = self._marks.horizon
        happened = None if time_us is None else moment_of(time_us)
        if happened is not None and self._is_late(happened):
            return LeftOut("late")
        own = nullcontext() if happened is None else event_time(max(happened, horizon or happened))
        try:
            with own:
                return getattr(self._program, name)(**self._given(name, copy.deepcopy(arguments)))
        except Aborted as refused:
            return Refused(refused.reason)
        except Exception as error:
            if not self._run.options.skips:
                raise
            return LeftOut(str(error))

    def _is_late(self, happened: datetime.datetime) -> bool:
        """Return whether a row is dropped: those of an epoch are late by the watermark that the one before it left."""
        options, marks = self._run.options, self._marks
        if marks.watermark is None or not options.drops_late:
            return False
        return happened < max(marks.watermark - options.lateness, marks.horizon or happened)

    def _fire(self, report: EpochReport) -> None:
        """Call the handlers of what is due at the end of an epoch: by its watermark, or by the clock."""
        if not any(turn.times_us for turn in self._run.turns):
            self._fired += fire_timers(self._program)
            return
        places = (element.type.place for element in timer_elements(self._run.program).values())
        marks = [report.watermark]
        if report.watermark == moment_of(LAST_US) and any(place.cyclic for place in places):
            # What feeds itself goes as far as rows say, and then once more.
            marks.insert(0, self._natural())
        for mark in marks:
            if mark is not None:
                self._fired += fire_timers(self._program, mark, horizon=self._marks.horizon)

    def _natural(self) -> datetime.datetime:
        """Return how far the rows alone have moved event time: all feeds, less the disorder."""
        latest: dict[str, int] = {}
        for turn in self._run.turns:
            for (name, _), us in zip(turn.rows, turn.times_us, strict=True):
                latest[name] = max(us, latest.get(name, us))
        return moment_of(min(latest.values())) - self._run.options.disorder


def _whole(run: Run, merges: Mapping[str, Merge]) -> dict[str, Any]:
    """Return the state of a run with the instances of each partial element made one."""
    whole = dict(run.state)
    for name, element in run.program.elements().items():
        if not element.partial:
            continue
        held = [value for value in run.state[name] if value]
        if name not in merges and len(held) > 1 and not isinstance(held[0], set):
            raise FeedError(
                "MP585",
                f"no merge= says how to combine the instances of `{name}`",
                expected=f'merge={{"{name}": function}}, Partial(..., merge=function), or instances=1',
                found=f"{len(held)} instances that hold something",
            )
        whole[name] = _merged(held, merges.get(name)) if held else run.state[name][0]
    return whole


def _merged(held: list[Any], merge: Merge | None) -> Any:
    if isinstance(held[0], set):
        return set().union(*held)
    if len(held) == 1 or merge is None:
        return held[0]
    if not isinstance(held[0], dict):
        return merge(held)
    keys = {key: None for instance in held for key in instance}
    return {key: merge([instance[key] for instance in held if key in instance]) for key in keys}


def _different_replies(run: Run, plain: list[Any]) -> Iterator[str]:
    rows = [row for turn in run.turns for row in turn.rows]
    for number, ((name, arguments), wanted, found) in enumerate(zip(rows, plain, run.replies, strict=True)):
        if not _same(wanted, found):
            call = f"{name}({', '.join(map(repr, arguments))})"
            yield _line(f"row {number}, {call[:100]}", wanted, found)


def _different(what: str, plain: Any, found: Any) -> Iterator[str]:
    """Yield what differs, key by key where there are keys."""
    if not (isinstance(plain, dict) and isinstance(found, dict)):
        if not _same(plain, found):
            yield _line(what, plain, found)
        return
    for key in [*plain, *(key for key in found if key not in plain)]:
        wanted, there = plain.get(key, _NOTHING), found.get(key, _NOTHING)
        if not _same(wanted, there):
            yield _line(f"{what}[{key!r}]"[:120], wanted, there)


def _line(what: str, wanted: Any, found: Any) -> str:
    return f"{what}: {_shown(wanted)} in plain Python, {_shown(found)} in the run"


def _shown(value: Any) -> str:
    return _NOTHING if value is _NOTHING else repr(value)[:160]


def _same(one: Any, other: Any) -> bool:
    # As text too, since a NaN equals nothing.
    return bool(one == other) or repr(one) == repr(other) or _alike(one, other)


def _alike(one: Any, other: Any) -> bool:
    """Return whether values are the same but for objects of classes without an equality, which go by their fields."""
    if type(one) is not type(other):
        return False
    if is_plain_object(type(one)):
        return _same(object_parts(one), object_parts(other))
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    if is_dataclass(one):
        return all(_same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return False

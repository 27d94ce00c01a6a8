"""Loops for tests, and what they give: a plain interpreter over all rows, which shares no code with the room."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from millpond.loops import Loop, fixpoint, persistent, rounds, state
from millpond.loops.kinds import LoopKind

START = datetime(2024, 1, 1, tzinfo=UTC)
LENGTH = 10
"""Windows are so many seconds long."""


class Least(NamedTuple):
    least: int
    far: int


class Spread(Loop):
    """The least key that can be reached backwards, and the round in which it was heard of."""

    combine = min
    near: list[int] = state(factory=list)
    least: int = state(10**9)
    far: int = state(0)

    def entry(self, rows: list[Any]) -> None:
        self.near = [row.target for row in rows]
        self.least = self.key
        self.send_all(self.near, self.key)

    def step(self, messages: list[int]) -> None:
        if messages[0] < min(self.least, self.key):
            self.least, self.far = messages[0], self.round
            self.send_all(self.near, self.least)
        elif self.least > self.key:
            self.least = self.key

    def finalize(self) -> Least:
        return Least(self.least, self.far)


class Carried(Loop):
    """Counts what it hears of over all windows, and passes halves of it on."""

    heard: int = persistent(0)
    near: list[int] = state(factory=list)

    def entry(self, rows: list[Any]) -> None:
        self.near = [row.target for row in rows]
        for place, key in enumerate(self.near):
            self.send(key, 40 + self.heard % 7 + place)

    def step(self, messages: list[int]) -> None:
        self.heard += sum(messages)
        if self.near and max(messages) > 3:
            self.send(self.near[self.heard % len(self.near)], max(messages) // 2)

    def finalize(self) -> int:
        return self.heard


def spread_kind() -> LoopKind:
    return LoopKind(Spread, fixpoint(), key=int, columns={"target": int})


def carried_kind() -> LoopKind:
    return LoopKind(Carried, fixpoint() | rounds(12), key=int, columns={"target": int})


def made_up(seed: int, count: int, keys: int = 9, seconds: int = 60, disorder: int = 0) -> list[tuple[Any, int, int]]:
    """Rows of event time, key and target, in the order in which they come; some windows stay empty."""
    draw = random.Random(seed)
    ats = sorted(draw.randrange(seconds * 10) / 10 for _ in range(count))
    ats = [at for at in ats if int(at) // LENGTH % 4 != 2]
    moved = sorted(ats, key=lambda at: at + draw.random() * disorder)
    return [(START + timedelta(seconds=at), draw.randrange(keys), draw.randrange(keys)) for at in moved]


def by_window(rows: list[tuple[Any, int, int]]) -> dict[int, dict[int, list[int]]]:
    """Rows by the number of their window, and their key; in the order of time, then target."""
    found: dict[int, dict[int, list[int]]] = {}
    for at, key, target in sorted(rows):
        number = int((at - START).total_seconds()) // LENGTH
        found.setdefault(number, {}).setdefault(key, []).append(target)
    return found


def spread_of(rows: list[tuple[Any, int, int]]) -> list[tuple[int, int, int, int]]:
    """What `Spread` gives: window, key, least and round."""
    out = []
    for number, keys in by_window(rows).items():
        least, far = {key: key for key in keys}, dict.fromkeys(keys, 0)
        sent = [(target, key) for key, near in keys.items() for target in near]
        count = 0
        while sent:
            count += 1
            inbox: dict[int, int] = {}
            for target, value in sent:
                inbox[target] = min(value, inbox.get(target, value))
            sent = []
            for key, value in inbox.items():
                least.setdefault(key, key), far.setdefault(key, 0)
                if value < least[key]:
                    least[key], far[key] = value, count
                    sent += [(target, value) for target in keys.get(key, [])]
        out += [(number, key, least[key], far[key]) for key in sorted(least)]
    return sorted(out)


def carried_of(rows: list[tuple[Any, int, int]]) -> list[tuple[int, int, int]]:
    """What `Carried` gives: window, key and what it heard; only keys with rows have loop state."""
    heard: dict[int, int] = {}
    out = []
    for number, keys in sorted(by_window(rows).items()):
        sent = [(t, 40 + heard.get(key, 0) % 7 + place) for key, near in keys.items() for place, t in enumerate(near)]
        for _ in range(12):
            inbox: dict[int, list[int]] = {}
            for target, value in sent:
                inbox.setdefault(target, []).append(value)
            sent = []
            for key, values in inbox.items():
                heard[key] = heard.get(key, 0) + sum(values)
                near = keys.get(key, [])
                if near and max(values) > 3:
                    sent.append((near[heard[key] % len(near)], max(values) // 2))
        out += [(number, key, heard.get(key, 0)) for key in sorted(keys)]
    return sorted(out)


def shown(row: tuple[Any, ...]) -> tuple[int, ...]:
    """A row of results, with the number of its window instead of its bounds."""
    begin, end, *rest = row
    assert end - begin == timedelta(seconds=LENGTH)
    return (int((begin - START).total_seconds()) // LENGTH, *rest)

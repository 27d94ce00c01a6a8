"""Loops over keys: who is called when, in which order, with which messages; strict and stale; cut anywhere."""

from __future__ import annotations

import itertools
import random
from typing import ClassVar

import pytest

from millpond.errors import LoopError
from millpond.loops import Loop, fixpoint, persistent, rounds, run_loop, stale, state, strict, within
from millpond.loops.combining import key_order, shard_of
from millpond.loops.contexts import Context
from millpond.state.codec.valuecodec import ValueCodec
from tests.unit.loops.oracle import supersteps


def code_of(call):
    with pytest.raises(LoopError) as caught:
        call()
    return caught.value.code


class Spread(Loop):
    """Components: the least key that is heard of."""

    combine = min
    near: list[int] = state(factory=list)
    least: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.near, self.least = rows, self.key
        self.send_all(rows, self.key)

    def step(self, messages: list[int]) -> None:
        assert len(messages) == 1
        if "least" not in vars(self):
            self.least = self.key
        if messages[0] < self.least:
            self.least = messages[0]
            self.send_all(self.near, self.least)

    def finalize(self) -> int:
        return self.least


class Mixed(Loop):
    """All kinds of messages: what is heard is kept in its order, and some of it is passed on."""

    heard: list[int] = state(factory=list)
    near: list[int] = state(factory=list)

    def entry(self, rows: list[int]) -> None:
        self.near = rows
        for place, key in enumerate(rows):
            self.send(key, 100 * self.key + place)

    def step(self, messages: list[int]) -> None:
        self.heard.extend(messages)
        for message in messages:
            if message % 3 and self.near:
                self.send(self.near[message % len(self.near)], message // 2)

    def finalize(self) -> list[int]:
        return [*self.heard, self.round]


def graph(seed, keys=12, edges=20):
    draw = random.Random(seed)
    rows = {key: [] for key in draw.sample(range(keys), keys * 3 // 4)}
    for _ in range(edges):
        rows[draw.choice(sorted(rows))].append(draw.randrange(keys))
    return rows


def mixed_oracle(rows, count):
    def entry(key):
        return [], [(target, 100 * key + place) for place, target in enumerate(rows[key])]

    def step(key, heard, messages, _):
        near = rows.get(key, [])
        out = [(near[m % len(near)], m // 2) for m in messages if m % 3 and near]
        return [*(heard or []), *messages], out

    states, number = supersteps(rows, entry, step, lambda n, _: n >= count, key_order)
    return {key: [*heard, number] for key, heard in states.items()}


@pytest.mark.parametrize("seed", range(40))
def test_strict_rounds_are_those_of_the_oracle(seed):
    rows = graph(seed)
    assert run_loop(Mixed, rows, until=rounds(6)) == mixed_oracle(rows, 6)


@pytest.mark.parametrize("seed", range(20))
def test_a_context_goes_on_where_it_was_frozen(seed):
    rows = graph(seed, 20, 40)
    whole = run_loop(Mixed, rows, until=rounds(7))
    hint = tuple[int, bool, dict[int, tuple[list[int], list[int]]], list[int], dict[int, list[int]], dict[str, int]]
    codec = ValueCodec(hint)
    one = Context(Mixed, rounds(7))
    one.enter(rows.items())
    while not one.ended:
        one.advance(1 + seed % 3)
        stored = codec.decode(codec.encode(tuple(one.frozen())))
        one = Context.thawed(type(one.frozen())(*stored), Mixed, rounds(7))
    assert one.results() == whole


@pytest.mark.parametrize("ahead", [1, 2, 5])
@pytest.mark.parametrize("seed", range(15))
def test_monotone_steps_come_to_the_same_fixpoint_however_stale(seed, ahead):
    rows = graph(seed, 60, 70)
    expected = run_loop(Spread, rows, until=fixpoint())
    assert run_loop(Spread, rows, until=fixpoint(), synchrony=stale(ahead)) == expected


def test_stale_by_nothing_is_strict():
    rows = graph(3)
    assert stale(0) == strict
    assert run_loop(Mixed, rows, until=rounds(5), synchrony=stale(0)) == run_loop(Mixed, rows, until=rounds(5))
    assert code_of(lambda: stale(-1)) == "MP852"


class Ahead(Loop):
    """Notes how far it is ahead of the round that all have behind them."""

    most: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.send_all(rows, 0)

    def step(self, messages: list[int]) -> None:
        self.most = max(self.most, self.round - self.global_round)
        self.send(self.key, 0)

    def finalize(self) -> tuple[int, int]:
        return self.most, self.round


def test_nobody_is_farther_ahead_than_allowed():
    found = run_loop(Ahead, {key: [key] for key in range(30)}, until=rounds(10), synchrony=stale(3))
    assert set(found.values()) == {(4, 10)}, "in round 4 of a turn, 3 ahead of a key that has yet to run its first"
    assert set(run_loop(Ahead, {1: [1]}, until=rounds(10)).values()) == {(1, 10)}


def test_a_stale_turn_ends_at_the_last_round():
    found = run_loop(Ahead, {key: [key] for key in range(30)}, until=rounds(6), synchrony=stale(3))
    assert {last for _, last in found.values()} == {6}


def test_stale_fixpoints_take_fewer_turns():
    same = [key for key in range(400) if shard_of(key) == 3][:20]
    rows = {key: [after] for key, after in itertools.pairwise(same)}
    turns = []
    for synchrony in (strict, stale(4)):
        one = Context(Spread, fixpoint(), synchrony)
        one.enter(rows.items())
        count = 0
        while not one.ended:
            one.advance(1)
            count += 1
        turns.append(count)
    assert turns == [19, 4]


class Sums(Loop):
    combine = sum
    aggregators: ClassVar = {"total": sum}
    total: float = state(0.0)

    def entry(self, rows: list[float]) -> None:
        for row in rows:
            self.send(0, row)
            self.report("total", row)

    def step(self, messages: list[float]) -> None:
        self.total = messages[0]
        assert self.aggregated("total") == messages[0]

    def finalize(self) -> float | None:
        return self.total if self.key == 0 else None


def test_floats_are_summed_by_shard_and_key():
    draw = random.Random(7)
    rows = {key: [draw.uniform(-1, 1) * 10.0 ** draw.randrange(-8, 8)] for key in range(200)}
    by_shard = {}
    for key in sorted(rows, key=key_order):
        shard = key_order(key)[0]
        by_shard[shard] = by_shard[shard] + rows[key][0] if shard in by_shard else rows[key][0]
    expected = None
    for part in by_shard.values():
        expected = part if expected is None else expected + part
    assert run_loop(Sums, rows, until=fixpoint())[0] == expected
    assert run_loop(Sums, dict(reversed(rows.items())), until=fixpoint())[0] == expected
    assert expected != sum(one for (one,) in rows.values()), "the order can be seen"


class Called(Loop):
    log: list[str] = state(factory=list)

    def entry(self, rows: list[int]) -> None:
        self.log.append(f"entry {rows}")
        if rows[0]:
            self.send("ghost", 1)
            self.send("other", 1)

    def step(self, messages: list[int]) -> None:
        if self.key != "ghost":
            self.log.append(f"step {messages} {self.round}")

    def finalize(self) -> list[str]:
        return self.log


def test_who_is_finalized():
    found = run_loop(Called, {"a": [1], "b": [0]}, until=fixpoint())
    assert found == {"a": ["entry [1]"], "b": ["entry [0]"], "other": ["step [1] 1"]}


def test_no_key_is_a_loop_that_ends_at_once():
    one = Context(Called, rounds(5))
    one.enter([])
    assert (one.ended, one.advance(), one.results()) == (True, 0, {})


class Inner(Loop):
    combine = sum
    got: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.send_all(rows, self.enclosing[0])

    def step(self, messages: list[int]) -> None:
        self.got += messages[0]

    def finalize(self) -> int:
        return self.got


class Outer(Loop):
    total: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.send(self.key, rows[0])

    def step(self, messages: list[int]) -> None:
        self.total += sum(self.iterate(Inner, {1: [2, 3], 2: [3]}, until=fixpoint()).values())
        if self.round < 4:
            self.send(self.key, 0)

    def finalize(self) -> int:
        return self.total


def test_an_inner_loop_has_the_round_around_it():
    # In each round r the inner keys get r three times; brute force over both loops.
    assert run_loop(Outer, {7: [1]}, until=fixpoint()) == {7: sum(3 * r for r in range(1, 5))}


class Lasting(Loop):
    seen: int = persistent(0)
    now: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.seen += len(rows)
        self.now = 1
        self.send("silent", 1)

    def step(self, messages: list[int]) -> None:
        self.seen += len(messages)

    def finalize(self) -> int:
        return self.seen


def test_persistent_state_goes_from_context_to_context():
    carried = {}
    found = []
    for rows in ({"a": [1, 1]}, {"b": [1]}, {"a": [1], "b": [1]}):
        one = Context(Lasting, fixpoint(), carried=carried)
        one.enter(rows.items())
        one = Context.thawed(one.frozen(), Lasting, fixpoint(), carried=carried)
        one.advance()
        one = Context.thawed(one.frozen(), Lasting, fixpoint(), carried=carried)
        found.append(one.results())
        carried = one.persisted()
    assert found == [{"a": 2}, {"b": 1}, {"a": 3, "b": 2}], "a key with persistent state alone has no result"
    assert carried == {"a": (3,), "b": (2,), "silent": (4,)}


class Forgets(Loop):
    def entry(self, rows: list[int]) -> None:
        self.lost = rows


class Own(Loop):
    combine = staticmethod(lambda a, b: a * b)
    product: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.send_all([1], rows[0])

    def step(self, messages: list[int]) -> None:
        (self.product,) = messages

    def finalize(self) -> int:
        return self.product


def test_a_combiner_of_ones_own():
    assert run_loop(Own, {1: [2], 2: [3], 3: [5]}, until=fixpoint())[1] == 30


def test_what_is_no_loop_is_refused():
    assert code_of(lambda: run_loop(Forgets, {1: [1]}, until=fixpoint())) == "MP856"
    assert code_of(lambda: run_loop(int, {1: [1]}, until=fixpoint())) == "MP854"
    assert code_of(lambda: run_loop(Spread, {1: [1]}, until=within(1, of="change"))) == "MP857"
    assert code_of(lambda: type("Bad", (Loop,), {"x": state([])})) == "MP853"
    assert code_of(lambda: run_loop(type("Bad", (Loop,), {"combine": 3}), {1: [1]}, until=fixpoint())) == "MP851"

    class Strange(Loop):
        def entry(self, rows: list[int]) -> None:
            self.report("missing", 1)

    assert code_of(lambda: run_loop(Strange, {1: [1]}, until=fixpoint())) == "MP857"

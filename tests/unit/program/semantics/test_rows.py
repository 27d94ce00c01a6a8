"""A plain call of an entry point is a row: it leaves values, or no trace, and costs what it touches."""

from __future__ import annotations

import pytest

from millpond import Aborted, Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, entry
from millpond.errors import StateError
from millpond.state.codec.valuecodec import ValueCodec


class Everything(Program):
    numbers = Partitioned(Map[str, int])
    lists = Partitioned(Map[str, list[int]])
    counts = Partitioned(Counter[str])
    members = Partitioned(Set[str])
    cells = Partitioned(Matrix[int, int, int])
    total = Partitioned(Value[int])
    log = Partitioned(List[str])
    weights = Partial(Vector[str])

    @entry
    def change(self, key: str, how: str) -> int:
        self.numbers[key] = self.numbers.get(key, 0) + 1
        self.numbers.pop("gone", None)
        self.lists.setdefault(key, []).append(1)
        self.lists["old"][0] = 9
        self.counts[key] += 1
        self.members.add(key)
        self.members.discard("out")
        self.cells[1, 2] += 1
        del self.cells[3, 3]
        self.total.set(self.total.get(0) + 1)
        self.log.append(key)
        self.weights[key] += 1.5
        if how == "abort":
            self.abort(f"no {key}")
        if how == "raise":
            raise ValueError(key)
        return self.numbers[key]

    @entry
    def fill(self, key: str) -> None:
        self.numbers["gone"] = 1
        self.lists["old"] = [1, 2]
        self.members.add("out")
        self.cells[3, 3] = 3
        self.log.append(key)

    @entry
    def all_of_it(self, key: str) -> tuple[list[str], int, int]:
        self.numbers[key] = 1
        found = sorted(self.numbers), len(self.numbers), len(self.lists)
        if key == "no":
            self.numbers.clear()
            self.abort("no")
        return found


def state_of(program: Program) -> dict[str, str]:
    return {name: repr(vars(program)[name]) for name in type(program).elements()}


@pytest.mark.parametrize(("how", "error"), [("abort", Aborted), ("raise", ValueError)])
def test_a_call_that_does_not_end_well_leaves_no_trace(how, error):
    program = Everything()
    program.fill("first")
    before = state_of(program)
    with pytest.raises(error):
        program.change("a", how)
    assert state_of(program) == before


def test_a_call_that_ends_well_is_kept():
    program = Everything()
    program.fill("first")
    assert program.change("a", "") == 1
    assert state_of(program) == {
        "numbers": "Map({'a': 1})",
        "lists": "Map({'a': [1], 'old': [9, 2]})",
        "counts": "Counter({'a': 1})",
        "members": "Set(['a'])",
        "cells": "Matrix({(1, 2): 1})",
        "total": "Value(1)",
        "log": "List(['first', 'a'])",
        "weights": "Vector({'a': 1.5})",
    }


def test_the_reason_is_told():
    program = Everything()
    program.fill("x")
    with pytest.raises(Aborted, match="no a") as caught:
        program.change("a", "abort")
    assert caught.value.reason == "no a"


def test_a_reason_is_text():
    class Wrong(Program):
        @entry
        def go(self, n: int) -> None:
            self.abort(n)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="reason as text"):
        Wrong().go(1)


def test_what_is_read_outside_of_a_row_is_a_copy():
    program = Everything()
    program.fill("x")
    held = program.lists["old"]
    held.append(7)
    program.lists.get("old", []).append(8)
    for values in (program.lists.values(), dict(program.lists.items()).values(), [program.lists.pop("old")]):
        (only,) = values
        assert only == [1, 2]
        only.append(9)


def test_what_is_written_outside_of_a_row_is_stored_as_a_copy():
    program = Everything()
    mine = [1, 2]
    program.lists["old"] = mine
    mine.append(3)
    program.lists.update({"other": mine})
    mine.append(4)
    assert program.lists == {"old": [1, 2], "other": [1, 2, 3]}


def test_all_of_a_container_is_seen_while_it_may_be_undone():
    program = Everything()
    program.fill("x")
    assert program.all_of_it("b") == (["b", "gone"], 2, 1)
    with pytest.raises(Aborted):
        program.all_of_it("no")
    assert sorted(program.numbers) == ["b", "gone"]


def test_types_are_checked_when_a_row_ends():
    class Typed(Program):
        m = Partitioned(Map[str, int])

        @entry
        def go(self, key: str, mends: int) -> None:
            self.m[key] = "text"  # type: ignore[assignment]
            if mends:
                self.m[key] = 1

    program = Typed()
    program.go("a", 1)
    with pytest.raises(StateError, match="MP209"):
        program.go("b", 0)
    assert program.m == {"a": 1}


def test_only_what_is_touched_is_looked_at(monkeypatch):
    program = Everything()
    program.fill("x")
    for number in range(1000):
        program.lists[str(number)] = [number]
    looked_at = []
    for name in ("kept", "renew"):
        look = getattr(ValueCodec, name)

        def counted(self, value, look=look):
            looked_at.append(value)
            return look(self, value)

        monkeypatch.setattr(ValueCodec, name, counted)
    program.change("7", "")
    assert len([value for value in looked_at if isinstance(value, list)]) == 4, "two lists, before and after"
    looked_at.clear()
    program.all_of_it("a")
    assert looked_at == [], "the length of a container needs none of its values"


def test_a_call_within_a_call_is_undone_by_itself():
    class Nested(Program):
        m = Partitioned(Map[str, list[int]])

        @entry
        def inner(self, key: str, n: int) -> None:
            self.m.setdefault(key, []).append(n)
            if n < 0:
                self.abort("less than nothing")

        @entry
        def outer(self, key: str, n: int) -> int:
            self.m.setdefault(key, []).append(0)
            try:
                self.inner(key, n)
            except Aborted:
                return -1
            return len(self.m)

    program = Nested()
    assert program.outer("a", 1) == 1
    assert program.outer("a", -1) == -1
    assert program.m == {"a": [0, 1, 0]}


def test_an_inherited_entry_point_aborts_by_a_helper_of_the_subclass():
    class Base(Program):
        m = Partitioned(Map[str, int])

        def _check(self, key: str) -> None:
            """Allow everything."""

        @entry
        def go(self, key: str) -> None:
            self.m[key] = 1
            self._check(key)

    class Strict(Base):
        def _check(self, key: str) -> None:
            if key == "no":
                self.abort("no")

    Base().go("no")
    program = Strict()
    with pytest.raises(Aborted):
        program.go("no")
    program.go("yes")
    assert program.m == {"yes": 1}
    assert list(Strict.entries()) == ["go"]


def test_time_and_random_numbers_work_in_a_call_that_may_abort():
    class Timed(Program):
        m = Partitioned(Map[str, float])

        @entry
        def go(self, key: str) -> float:
            self.m[key] = self.random.random()
            if self.now.year < 2000:
                self.abort("too early")
            return self.m[key]

    assert Timed().go("a") == Timed().go("a")

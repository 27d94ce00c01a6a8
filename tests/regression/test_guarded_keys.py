"""The key of an access is asked for when the access is reached, not before."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from millpond import Counter, Map, Matrix, Partitioned, Program, Set, entry
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import RowError, StateError


class Guarded(Program):
    a = Partitioned(Map[str, int])

    @entry
    def go(self, x: str | None) -> int:
        if x is None:
            return -1
        self.a[x] = self.a.get(x, 0) + 1
        return self.a[x]


class InBranch(Guarded):
    @entry
    def go(self, x: str | None) -> int:
        total = 0
        if x is not None:
            self.a[x] = self.a.get(x, 0) + 1
            total = self.a[x]
        return total


class InExpression(Guarded):
    @entry
    def go(self, x: str | None) -> int:
        return -1 if x is None else self.a.setdefault(x, 3)


class InCondition(Guarded):
    @entry
    def go(self, x: str | None) -> bool:
        return x is not None and x not in self.a and self.a.setdefault(x, 1) == 1


class AfterAVisit(Guarded):
    b = Partitioned(Map[str, int])

    @entry
    def go(self, x: str | None) -> int:
        self.b["all"] = self.b.get("all", 0) + 1
        visits = self.b["all"]
        if x is None:
            return -visits
        self.a[x] = self.a.get(x, 0) + visits
        return self.a[x]


class FromState(Guarded):
    """What `get` gives may be None, whatever the type of the values."""

    names = Partitioned(Map[str, str])

    @entry
    def go(self, x: str | None) -> int:
        found = self.names.get("last")
        if x:
            self.names["last"] = x
        if found is not None:
            self.a[found] = self.a.get(found, 0) + 1
            return self.a[found]
        return 0


class Gathered(Guarded):
    @entry
    def go(self, x: str | None) -> int:
        if x is None:
            return self.a.get("k", 0)
        self.a[x] = self.a.get(x, 0) + 1
        self.a["k"] = self.a.get("k", 0) - 1
        return self.a[x]


class GatheredByState(Guarded):
    seen = Partitioned(Set[str])

    @entry
    def go(self, x: str | None) -> int:
        if "k" in self.seen and x is not None:
            self.a[x] = self.a.get(x, 0) + 1
            self.a["k"] = 5
        self.seen.add("k")
        return self.a.get("k", 0)


class Relaxed(Guarded):
    n = Partitioned(Counter[str])

    @entry(relaxed=True)
    def go(self, x: str | None) -> int:
        total = 0
        for one in (x, None, "z"):
            if one is None:
                total += 100
                continue
            total += self.a.get(one, 0)
            self.a[one] = total
        self.n["k"] += 1
        return total


class Tupled(Program):
    a = Partitioned(Map[tuple[str, int], int])

    @entry
    def go(self, x: str | None) -> int:
        if not x:
            return -1
        self.a[x, 1] = self.a.get((x, 1), 0) + 1
        return self.a[x, 1]


class Cells(Program):
    m = Partitioned(Matrix[str, str, int], by="column")

    @entry
    def go(self, x: str | None) -> int:
        if x is None:
            return -1
        self.m["r", x] += 1
        return self.m["r", x]


GUARDED = [
    *(Guarded, InBranch, InExpression, InCondition, AfterAVisit, FromState, Gathered, GatheredByState, Relaxed),
    *(Tupled, Cells),
]
ROWS = ["a", None, "a", "bb", None, "a"]


def replies(program: type[Program], folder: Path, partitions: int, size: int, policy: BadRows) -> list[Any]:
    run = Simulated(compile_program(program), folder, partitions=partitions, bad_rows=policy)
    for start in range(0, len(ROWS), size):
        run.epoch([("go", (x,)) for x in ROWS[start : start + size]])
    return [reply for _, reply in sorted(run.replies().items())]


@pytest.mark.parametrize("policy", [BadRows.FAIL, BadRows.SKIP])
@pytest.mark.parametrize("program", GUARDED, ids=lambda program: program.__name__)
def test_a_row_that_does_not_reach_its_key_needs_none(program, policy, tmp_path):
    plain = program()
    wanted = [plain.go(x) for x in ROWS]
    reference = Sequential(compile_program(program))
    assert [reference.call("go", x) for x in ROWS] == wanted
    for partitions, size in ((1, len(ROWS)), (2, 2), (7, 1)):
        cut = 1 if program is Relaxed else size
        assert replies(program, tmp_path / str(partitions), partitions, cut, policy) == wanted


class Reached(Guarded):
    @entry
    def go(self, x: str | None) -> int:
        self.a[x] = self.a.get(x, 0) + 1
        return 1


class ReachedLater(AfterAVisit):
    @entry
    def go(self, x: str | None) -> int:
        self.b["all"] = self.b.get("all", 0) + 1
        return self.a.get(x, 0)


class ReachedGathered(Guarded):
    @entry
    def go(self, x: str | None) -> int:
        self.a["k"] = 3
        self.a[x] = self.a.get("k", 0) - 1
        return 1


class OutOfRange(Program):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[str, int])

    @entry
    def go(self, x: str | None) -> int:
        self.b["all"] = 2
        return self.a.get(2**70 if x is None else 1, 0)


REACHED = [Reached, ReachedLater, ReachedGathered, OutOfRange]


@pytest.mark.parametrize("program", REACHED, ids=lambda program: program.__name__)
def test_a_row_that_reaches_it_fails_at_its_line_as_in_plain_python(program, tmp_path):
    plain = program()
    with pytest.raises(StateError) as wanted:
        plain.go(None)
    run = Simulated(compile_program(program), tmp_path, partitions=3)
    with pytest.raises(RowError) as found:
        run.epoch([("go", ("a",)), ("go", (None,))])
    assert wanted.value.code in str(found.value)
    assert Path(__file__).name in str(found.value)


@pytest.mark.parametrize("program", REACHED, ids=lambda program: program.__name__)
def test_other_rows_are_kept_if_it_is_left_out(program, tmp_path):
    run = Simulated(compile_program(program), tmp_path, partitions=3, bad_rows=BadRows.SKIP)
    run.epoch(copy.deepcopy([("go", ("a",)), ("go", (None,)), ("go", ("a",))]))
    assert sorted(run.replies()) == [0, 2]

"""Rows in sequence over every kind of element: put down between rows, undone at once and one by one."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, each, entry, merged
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows
from millpond.engine.sequence import streaming
from millpond.engine.sequence.portions import in_portions
from millpond.engine.sequence.state import SequenceState
from millpond.engine.simulated import Simulated
from tests.chance import seed_of

LONG = timedelta(days=1)
KEYS = "abcdefgh"


class Everything(Program):
    next_of = Partitioned(Map[str, str])
    lists = Partitioned(Map[str, list[int]])
    texts = Partitioned(Map[str, list[str]])
    nested = Partitioned(Map[str, dict[str, list[int]]])
    pairs = Partitioned(Map[str, tuple[int, str]])
    counts = Partitioned(Counter[str])
    weights = Partitioned(Vector[str])
    cells = Partitioned(Matrix[str, str, int], by="row")
    members = Partitioned(Set[str])
    log = Partitioned(List[str])
    total = Partitioned(Value[int])
    aged = Partitioned(Map[str, int], ttl=LONG)
    aged_lists = Partitioned(Map[str, list[int]], ttl=LONG)
    aged_counts = Partitioned(Counter[str], ttl=LONG)
    seen = Partial(Counter[str])

    @entry
    def move(self, key: str, other: str, n: int) -> str:
        """Touch all kinds of state under a key that follows from state; of some rows all is undone."""
        at = self.next_of.get(key, key)
        self.next_of[key] = other
        self.lists.setdefault(at, []).append(n)
        self.texts[at] = [*self.texts.get(key, []), other][-3:]
        inner = self.nested.get(at)
        if inner is None:
            inner = self.nested[at] = {}
        inner.setdefault(other, []).append(n)
        self.pairs[at] = (n, key)
        self.counts[at] += n
        self.weights[at] += n / 4
        self.cells[at, other] += n
        self.members.add(at) if n % 3 else self.members.discard(key)
        self.log.append(at)
        self.total.set(self.total.get(0) + n)
        self.aged[at] = self.aged.get(at, 0) + n
        self.aged_lists.setdefault(at, []).append(n)
        self.aged_counts[at] += 1
        self.seen[at] += 1
        if n % 5 == 0:
            self.lists.pop(at)
            del self.next_of[key]
            self.aged.pop(at, None)
            self.nested.pop(key, None)
        if n == 13:
            raise ValueError(at)
        told = (self.lists.get(key), self.texts.get(key), self.pairs.get(at), self.counts[key], self.weights[at])
        return repr((at, *told, self.nested.get(at), self.cells[key, other], key in self.members, self.aged.get(key)))

    @entry
    def show(self, key: str) -> str:
        """Tell all that there is."""
        maps = (self.next_of, self.lists, self.texts, self.nested, self.pairs, self.counts, self.weights)
        aged = (self.aged, self.aged_lists, self.aged_counts)
        rows = {one: dict(self.cells.row(one)) for one in KEYS}
        single = (sorted(self.members), list(self.log), self.total.get(0), merged(each(self.seen).get(key, 0), sum))
        return repr(([dict(one) for one in (*maps, *aged)], rows, single))


def drawn(chance, count, raising):
    """Draw rows; at the places that are to be `raising`, ones that raise at their end."""
    rows = []
    for at in range(count):
        n = 13 if at in raising else chance.choice((1, 2, 3, 4, 5, 6, 7, 10))
        rows.append(("move", (chance.choice(KEYS), chance.choice(KEYS), n)))
        if at % 17 == 16:
            rows.append(("show", (chance.choice(KEYS),)))
    return [*rows, ("show", ("a",))]


@pytest.mark.parametrize("raising", [(), (2,), (23,), (2, 3, 30), tuple(range(0, 40, 3))], ids=str)
@pytest.mark.parametrize("memory_bytes", [0, 1])
@pytest.mark.parametrize("portion", [7, 1000])
def test_all_kinds_of_state_equal_plain_python(portion, memory_bytes, raising, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "in_portions", lambda batches: in_portions(batches, portion))
    put = []
    put_down = SequenceState.put_down
    monkeypatch.setattr(SequenceState, "put_down", lambda state: put.append(put_down(state)))
    chance = random.Random(seed_of(f"{portion} {memory_bytes} {raising}"))
    run, plain = (
        Simulated(compile_program(Everything), tmp_path, 2, bad_rows=BadRows.SKIP, memory_bytes=memory_bytes),
        Everything(),
    )
    expected, number = {}, 0
    for count in (40, 15):
        rows = drawn(chance, count, raising)
        run.epoch(rows)
        for name, given in rows:
            try:
                expected[number] = getattr(plain, name)(*given)
            except ValueError:
                assert given[-1] == 13
            number += 1
    assert run.replies() == expected
    assert bool(put) == bool(memory_bytes)

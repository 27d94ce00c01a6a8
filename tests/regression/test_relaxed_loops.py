"""What a relaxed method reads and writes under one key without leaving it is never cut apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millpond import Counter, Map, Matrix, Partial, Partitioned, Program, Set, Value, entry
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from tests.property.relaxed_oracle import Relaxed

ROWS = 5


def cheapest(offers: list[int]) -> int:
    return min(offers)


@dataclass
class Order:
    seat: int
    buyer: str


class Loop(Program):
    taken = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        sold = 0
        for seat in seats:
            owner = self.taken.get(seat, 0)
            self.taken[seat] = owner + 1
            sold += owner
        return sold

    @entry
    def show(self, seat: int) -> int:
        return self.taken.get(seat, 0)


class SoldOnce(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        for seat in seats:
            if seat not in self.taken:
                self.taken[seat] = len(seats)
                return seat
        return -1


class WhileLoop(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        at, sold = 0, 0
        while at < len(seats):
            owner = self.taken.get(seats[at], 0)
            self.taken[seats[at]] = owner + 1
            sold += owner
            at += 1
        return sold


class Nested(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        sold = 0
        for _ in seats:
            for seat in seats:
                owner = self.taken.get(seat, 0)
                if owner % 2 == 0:
                    self.taken[seat] = owner + 1
                else:
                    self.taken[seat] = owner + 2 - 1
                sold += owner
        return sold


class Helper(Loop):
    def _bump(self, seat: int) -> int:
        owner = self.taken.get(seat, 0)
        self.taken[seat] = owner + 1
        return owner

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        sold = 0
        for seat in seats:
            sold += self._bump(seat)
        return sold


class AnyExpression(Loop):
    """A key that is computed twice is one key, whatever computes it."""

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        owner = self.taken.get(cheapest(seats), 0)
        self.taken[cheapest(seats)] = owner + 1
        return owner


class Items(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        orders = [Order(seat, "ann") for seat in seats]
        owner = self.taken.get(orders[0].seat, 0)
        self.taken[orders[0].seat] = owner + 1
        return owner


class Aliased(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        first, last = seats[0], seats[-1]
        owner = self.taken.get(first, 0)
        self.taken[last] = owner + 1
        return owner


class Texts(Program):
    names = Partitioned(Map[str, int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        was = 0
        for seat in seats:
            was = self.names.get(f"seat-{seat}", 0)
            self.names[f"seat-{seat}"] = was + 1
        return was

    @entry
    def show(self, seat: int) -> int:
        return self.names.get(f"seat-{seat}", 0)


class Rows(Program):
    cells = Partitioned(Matrix[int, int, int], by="row")
    seen = Partitioned(Set[int])
    visits = Partitioned(Counter[int])
    copies = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        total = 0
        for seat in seats:
            old = self.cells[seat, 0]
            self.cells[seat, 1] = old + 1
            self.cells[seat, 0] = int(sum(self.cells.row(seat).values())) - old
            if seat in self.seen:
                total += self.visits[seat]
            self.seen.add(seat)
            self.visits[seat] += 1
            self.copies[seat] = self.cells[seat, 0]
        return total

    @entry
    def show(self, seat: int) -> int:
        return self.copies.get(seat, 0)


class AfterTurns(Program):
    """Turns that are sent away, and then again the key from before: with no turns it was never left."""

    stock = Partitioned(Map[int, int])
    log = Partitioned(Map[str, int])
    state = Partitioned(Value[int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        was = self.stock.get(0, 0)
        for seat in seats[1:]:
            self.log[str(seat)] = self.log.get(str(seat), 0) + 1
        self.stock[0] = was + 1
        return was

    @entry
    def show(self, seat: int) -> int:
        return self.stock.get(0, 0)


class ReadBefore(Loop):
    """The first turn is where the method has just read: it is not sent away from there."""

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        owners = [self.taken.get(seat, 0) for seat in seats]
        for seat, owner in zip(seats, owners, strict=True):
            self.taken[seat] = owner + 1
        return sum(owners)


class FreeSeats(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        free = [seat for seat in seats if seat not in self.taken]
        for seat in free:
            self.taken[seat] = len(seats)
        return len(free)


class FirstOfTurns(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        owner = self.taken.get(seats[0], 0)
        for seat in seats:
            if owner < 3 or seat != 8:
                self.taken[seat] = owner + 1
        return owner


class TurnsWithinTurns(Loop):
    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        owner = self.taken.get(seats[0], 0)
        for seat in seats:
            for other in seats:
                self.taken[other] = owner + seat
        return owner


class OtherElement(Program):
    """One key of two elements is one place."""

    stock = Partitioned(Map[int, int])
    sold = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        was = self.stock.get(seats[0], 0)
        for seat in seats:
            self.stock[seat] = was + 1
            self.sold[seat] = self.sold.get(seat, 0) * 2 + was
        return was

    @entry
    def show(self, seat: int) -> int:
        return self.sold.get(seat, 0)


class ValuesAround(Program):
    """Turns between accesses that have no key."""

    made = Partitioned(Value[int])
    taken = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> int:
        was = self.made.get(0)
        for seat in seats[1:]:
            self.taken[seat] = self.taken.get(seat, 0) + 1
        self.made.set(was + 1)
        return was

    @entry
    def show(self, seat: int) -> int:
        return self.made.get(0)


PROGRAMS = [Loop, SoldOnce, WhileLoop, Nested, Helper, AnyExpression, Items, Aliased, Texts, Rows, AfterTurns]
PROGRAMS += [ReadBefore, FreeSeats, FirstOfTurns, TurnsWithinTurns, OtherElement, ValuesAround]


def in_sequence(program: type[Program], rows: list[Any], _: Path) -> list[Any]:
    return Sequential(compile_program(program)).epoch(rows)


def on_partitions(partitions: int, steps: int) -> Callable[[type[Program], list[Any], Path], list[Any]]:
    def run(program: type[Program], rows: list[Any], folder: Path) -> list[Any]:
        simulated = Simulated(compile_program(program), folder, partitions=partitions, steps_max=steps)
        simulated.epoch(rows)
        return [reply for _, reply in sorted(simulated.replies().items())]

    return run


WAYS = {
    "in sequence": in_sequence,
    "1 partition": on_partitions(1, 8),
    "3 partitions": on_partitions(3, 2),
    "7 partitions": on_partitions(7, 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_rows_over_one_key_give_what_plain_python_gives(program, way, tmp_path):
    rows = [("go", ([7],))] * ROWS
    plain = program()
    assert WAYS[way](program, rows, tmp_path) == [plain.go([7]) for _ in range(ROWS)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_rows_over_several_keys_give_what_some_order_of_moves_gives(program, way, tmp_path):
    rows = [("go", ([7, 8],)), ("go", ([8, 7],)), ("go", ([7, 7],))]
    allowed = {result.partition("], {")[0] for result in Relaxed(program, rows).allowed()}
    found = WAYS[way](program, rows, tmp_path)
    assert repr((found, {})).partition("], {")[0] in allowed


class Instances(Program):
    """Partial state is met where the method is: turns are not left behind it."""

    made = Partial(Counter[int])
    taken = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, seats: list[int]) -> None:
        for seat in seats:
            self.taken[seat] = self.taken.get(seat, 0) + 1
        self.made[0] += 1


@pytest.mark.parametrize("program", [ReadBefore, FreeSeats, FirstOfTurns, ValuesAround], ids=lambda own: own.__name__)
def test_turns_under_other_keys_are_still_sent_away_at_once(program):
    assert any(edge.fan_out for edge in compile_program(program).graph.edges)


def test_a_loop_before_partial_state_is_done_turn_by_turn():
    assert not any(edge.fan_out for edge in compile_program(Instances).graph.edges)

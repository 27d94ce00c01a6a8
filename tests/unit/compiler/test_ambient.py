"""`self.now` and `self.random` in compiled programs: what plain Python says, whatever the cuts and partitions."""

from __future__ import annotations

import copy
import datetime

import pytest

from millpond import Counter, Map, Partial, Partitioned, Program, each, entry, merged
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import ProgramError
from millpond.program.semantics.epoch_time import epoch_time
from tests.golden.programs import load, program_in

NOON = datetime.datetime(2026, 8, 1, 12, 0, 0, 7, tzinfo=datetime.UTC)


class Lottery(Program):
    """Draws before and after moves from key to key, in branches, loops, lambdas and comprehensions."""

    drawn = Partitioned(Map[int, float])
    wins = Partitioned(Counter[str])
    sales = Partial(Counter[int])
    last = Partitioned(Map[str, datetime.datetime])

    @entry
    def draw(self, ticket: int, name: str) -> list[float]:
        """The docstring stays the first statement."""
        first = self.random.random()
        self.drawn[ticket] = first
        prize = self.random.randint(1, 6)
        self.wins[name] += prize
        return [first, float(self.wins[name]), self.random.gauss()]

    @entry
    def pick(self, names: list[str], count: int, price: float) -> list[str]:
        names.append("nobody")
        self.random.shuffle(names)
        winner = str(names[0])
        self.wins[winner] += 1
        if count % 2:
            names = sorted(names, key=lambda name: (self.random.random(), name))
        return [self.random.choice(names) for _ in range(count)]

    @entry
    def visit(self, name: str) -> datetime.datetime:
        moment = self.now
        self.wins[name] += 1
        self.last[name] = self.now
        assert moment == self.now
        return moment + datetime.timedelta(days=self.wins[name])

    @entry
    def sell(self, ticket: int) -> int:
        self.sales[self.random.randrange(3)] += ticket
        return self.random.randrange(100)

    @entry
    def count(self, ticket: int) -> int:
        lucky = self.random.randrange(3)
        return merged(each(self.sales).get(lucky, 0), sum) + self.random.randrange(100)

    @entry
    def shadow(self, random: int, now: str) -> float:
        now_us__0 = random__0 = random
        return self.random.random() + random__0 + now_us__0 + len(now)


ROWS = [
    row
    for n in range(12)
    for row in (
        ("draw", (n % 4, f"n{n % 3}")),
        ("pick", ([f"n{m}" for m in range(n % 5)], n % 4, n / 2)),
        ("visit", (f"n{n % 3}",)),
        ("sell", (n,)),
        ("count", (n,)),
        ("shadow", (n, "x" * n)),
    )
]


def plain_replies(rows):
    program = Lottery()
    return [getattr(program, name)(*copy.deepcopy(arguments)) for name, arguments in rows]


@pytest.fixture(autouse=True)
def _at_noon():
    with epoch_time(NOON):
        yield


def test_one_by_one_it_says_what_plain_python_says():
    sequential = Sequential(compile_program(Lottery))
    assert [sequential.call(name, *copy.deepcopy(args)) for name, args in ROWS] == plain_replies(ROWS)


@pytest.mark.parametrize("partitions", [1, 3])
def test_on_many_partitions_it_says_what_plain_python_says(partitions, tmp_path):
    simulated = Simulated(compile_program(Lottery), tmp_path, partitions=partitions)
    for at in range(0, len(ROWS), 17):
        simulated.epoch(ROWS[at : at + 17])
    replies = simulated.replies()
    assert [replies[number] for number in range(len(ROWS))] == plain_replies(ROWS)


def test_an_integer_in_a_column_of_floats_draws_the_same(tmp_path):
    simulated = Simulated(compile_program(Lottery), tmp_path)
    simulated.epoch([("pick", (["a", "b", "c"], 3, 2))])
    assert simulated.replies()[0] == plain_replies([("pick", (["a", "b", "c"], 3, 2))])[0]


def test_every_epoch_has_a_time_of_its_own(tmp_path):
    simulated = Simulated(compile_program(Lottery), tmp_path, partitions=2)
    for day in range(3):
        with epoch_time(NOON + datetime.timedelta(days=day)):
            simulated.epoch([("visit", (f"n{n}",)) for n in range(4)])
    times = {number: reply - datetime.timedelta(days=1 + number // 4) for number, reply in simulated.replies().items()}
    assert times == {number: NOON + datetime.timedelta(days=number // 4) for number in range(12)}


def test_without_a_test_it_is_the_time_of_the_system(tmp_path):
    from millpond.program.semantics.epoch_time import _chosen, epoch_now

    _chosen.set(None)
    before = epoch_now()
    simulated = Simulated(compile_program(Lottery), tmp_path, partitions=2)
    simulated.epoch([("visit", (f"n{n}",)) for n in range(9)])
    times = {reply - datetime.timedelta(days=1) for reply in simulated.replies().values()}
    assert len(times) == 1
    assert before <= times.pop() <= epoch_now()


def refusal(tmp_path, text):
    with pytest.raises(ProgramError) as caught:
        compile_program(program_in(load(text, tmp_path)))
    return caught.value


SETTING = """
class P(Program):
    @entry
    def go(self, x: int) -> None:
        self.{name} = x
"""


@pytest.mark.parametrize("name", ["now", "random"])
def test_they_can_not_be_set(name, tmp_path):
    error = refusal(tmp_path, SETTING.format(name=name))
    assert error.code == "MP175"
    assert error.places


RESERVED = """
class P(Program):
    {name} = Partitioned(Map[int, int])

    @entry
    def go(self, x: int) -> None:
        pass
"""


@pytest.mark.parametrize("name", ["now", "random"])
def test_their_names_are_taken(name, tmp_path):
    assert refusal(tmp_path, RESERVED.format(name=name)).code == "MP126"


HELPER = """
class P(Program):
    m = Partitioned(Map[int, float])

    @entry
    def go(self, x: int) -> float:
        self.m[x] = self._outer()
        return self.m[x]

    def _outer(self) -> float:
        return self._inner() + self._fine(random=3)

    def _inner(self) -> float:
        return self.random.random() if self.now else 0.0

    def _fine(self, random: int) -> int:
        return random
"""


def test_a_helper_says_the_same_or_is_refused(tmp_path):
    program = program_in(load(HELPER, tmp_path))
    refused = ""
    try:
        sequential, plain = Sequential(compile_program(program)), program()
        assert [sequential.call("go", x) for x in range(5)] == [plain.go(x) for x in range(5)]
    except ProgramError as error:
        refused = str(error)
    assert not refused or ("MP175" in refused and "`_inner` reads self." in refused)

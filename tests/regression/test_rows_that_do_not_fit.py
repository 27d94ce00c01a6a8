"""A row whose result can't be handed over, or whose exception is a strange one, costs that row like any that raises."""

from __future__ import annotations

import random

import pytest

from millpond import Counter, List, Map, Partial, Partitioned, Program, each, entry, merged
from millpond.engine.failures import LINES_FIRST, LINES_LAST
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task import inorder
from millpond.errors import Passing, RowError
from tests.programs.keyed import committed_state
from tests.sizes import compile_once, sized

POLICIES = (BadRows.SKIP, BadRows.DEAD_LETTER)


def reply_of(n, size):
    """What fits, if the number is positive."""
    if n < 0:
        raise ValueError(f"not {n}")
    return size if n else f"{size}"


class OneStep(Program):
    """Changes its arguments, too: rows that run again must get them as they came."""

    lists = Partitioned(Map[int, list[int]])

    @entry
    def go(self, key: int, n: int, items: list[int]) -> int:
        held = self.lists.setdefault(key, [])
        items.append(len(held))
        held.append(sum(items))
        return reply_of(n, held[-1])

    @entry
    def walk(self, key: int, n: int, items: list[int]) -> list[int]:
        held = self.lists.setdefault(key, [])
        held.append(len(items))
        return [len(held), reply_of(n, len(held))]


class Moving(Program):
    first = Partitioned(Map[int, list[int]])
    second = Partitioned(Counter[int])

    @entry
    def go(self, key: int, n: int, items: list[int]) -> int:
        held = self.first.setdefault(key, [])
        held.append(n)
        items.append(len(held))
        size = len(items)
        self.second[size] += 2
        return reply_of(n, self.second[size])

    @entry
    def carry(self, key: int, n: int, items: list[int]) -> int:
        held = self.first.setdefault(key, [])
        held.append(n)
        size = len(held)
        what = size if n else size.bit_length
        self.second[size] += 1
        return reply_of(n, self.second[size]) + (what if isinstance(what, int) else 0)


class Together(Program):
    held = Partitioned(Map[int, list[int]])
    log = Partitioned(List[int])

    @entry
    def go(self, key: int, n: int, items: list[int]) -> int:
        self.held.setdefault(key, []).append(n)
        self.held.setdefault((key + 1) % 5, []).extend(items)
        if n == 5:
            self.abort("five")
        return reply_of(n, len(self.held[key]))

    @entry
    def note(self, key: int, n: int, items: list[int]) -> int:
        self.log.append(n)
        return reply_of(n, len(self.log))


def add(counts: list[int]) -> int:
    return sum(counts)


class Copies(Program):
    words = Partial(Counter[int])

    @entry
    def go(self, key: int, n: int, items: list[int]) -> int:
        self.words[key] += 1
        return reply_of(n, self.words[key])

    @entry
    def total(self, key: int, n: int, items: list[int]) -> int:
        found = merged(each(self.words).get(key, 0), add)
        return reply_of(n, found)


PROGRAMS = {one.__name__: one for one in (OneStep, Moving, Together, Copies)}


def rows_of(program, dice, count, share):
    names = sorted(program.entries())
    rows = []
    for _ in range(count):
        n = dice.choice([0, 0, -1]) if dice.random() < share else dice.randrange(1, 8)
        rows.append((dice.choice(names), (dice.randrange(5), n, [dice.randrange(9) for _ in range(dice.randrange(3))])))
    return rows


@pytest.mark.parametrize("seed", range(sized(4, 1)))
@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_whose_results_do_not_fit_are_as_if_they_had_never_been_fed(tmp_path, monkeypatch, name, share, seed):
    program, dice = PROGRAMS[name], random.Random(f"{name} {share} {seed}")
    rows = rows_of(program, dice, 120, share)
    bad = [at for at, (_, (_, n, _)) in enumerate(rows) if n <= 0]
    monkeypatch.setattr(inorder, "CHUNK_ROWS", dice.choice([4, 40, 8192]))
    monkeypatch.setattr(inorder, "KNOW_ROWS", dice.choice([1, 3, 32]))
    policy, partitions, cut = dice.choice(POLICIES), dice.choice([1, 3]), dice.choice([9, 50, 120])

    def run(folder, kept, **options):
        made = Simulated(compile_once(program), tmp_path / folder, partitions, key_groups=16, instances=4, **options)
        for start in range(0, len(rows), cut):
            outcome = made.epoch([row for at, row in enumerate(rows[start : start + cut], start) if at in kept])
        return made, outcome.manifest.counters

    made, counters = run("all", range(len(rows)), bad_rows=policy)
    good = [at for at in range(len(rows)) if at not in bad]
    alone, _ = run("good", set(good))
    assert made.replies() == {good[at]: reply for at, reply in alone.replies().items()}
    assert made.refusals() == {good[at]: reason for at, reason in alone.refusals().items()}
    assert committed_state(tmp_path / "all" / "checkpoint") == committed_state(tmp_path / "good" / "checkpoint")
    assert sum(count for key, count in counters.items() if key.startswith("total.bad.")) == len(bad)
    assert sum(count for key, count in counters.items() if key.startswith("total.fed.")) == len(good)
    if program is not Copies:
        # Which instance a row meets follows from what it says: plain Python has all in one.
        plain = program()
        told = {}
        for at in good:
            entry_name, (key, n, items) = rows[at]
            if (entry_name, n) != ("go", 5) or program is not Together:
                told[at] = getattr(plain, entry_name)(key, n, [*items])
        assert {at: reply for at, reply in made.replies().items() if at not in made.refusals()} == told
    letters = [letter for sink in made.dead_letters.values() for letter in sink.rows()]
    if policy is BadRows.DEAD_LETTER:
        assert sorted(letter["order_by"] for letter in letters) == bad
        assert {letter["exception"] for letter in letters} <= {"ValueError", "RowError"}


def test_the_letter_says_what_was_declared_and_what_was_given(tmp_path):
    made = Simulated(compile_once(OneStep), tmp_path, 1, bad_rows=BadRows.DEAD_LETTER)
    made.epoch([("go", (1, 0, [])), ("go", (1, 3, []))])
    assert made.replies() == {1: 0}
    (letter,) = made.dead_letters["go"].rows()
    assert letter["reason"] == "a reply of `go` does not fit its return type: str where int is declared"
    assert (letter["exception"], letter["row"]) == ("RowError", '{"key": 1, "n": 0, "items": [], "row": 0}')


@pytest.mark.parametrize(
    ("program", "name", "code", "shown"),
    [
        (OneStep, "go", "MP604", "str where int is declared; in go(key=1, n=0, items="),
        (Moving, "go", "MP604", "str where int is declared; in go(n=0"),
        (Moving, "carry", "MP601", "; in carry(key=1, n=0"),
        (Together, "go", "MP604", "str where int is declared; in go(key=1, n=0, items="),
    ],
)
def test_a_row_that_may_not_fail_is_told_with_what_it_was_given(tmp_path, program, name, code, shown):
    made = Simulated(compile_once(program), tmp_path, 2, bad_rows=BadRows.FAIL)
    with pytest.raises(RowError) as caught:
        # The later row raises, which is no news: the run ends with what comes first.
        made.epoch([(name, (1, 3, [])), (name, (1, 0, [])), ("go", (1, -1, []))])
    assert caught.value.code == code
    assert shown in str(caught.value)


# --- exceptions of every kind


class MuteError(Exception):
    """Can't even say what it is."""

    def __str__(self):
        raise RuntimeError("no text")


class Own(BaseException):
    """What `except Exception` does not catch."""


class TiedError(Exception):
    """Can't be pickled."""

    def __init__(self, first, second):
        super().__init__(first)
        self.second = lambda: second


def deep(n):
    return deep(n + 1) + 1


def circle():
    error = ValueError("circle")
    error.__cause__ = error
    return error


RAISED = {
    1: MuteError,
    2: lambda: Own("own"),
    3: lambda: SystemExit(3),
    4: GeneratorExit,
    5: lambda: StopIteration(5),
    6: lambda: TiedError(1, 2),
    7: AssertionError,
    8: circle,
    9: lambda: ValueError("\ud800 alone"),
    10: lambda: ExceptionGroup("many", [ValueError(1), KeyError(2)]),
}


def strange(n):
    if n == 11:
        deep(0)
    if n:
        error = RAISED[n]()
        raise error


class Strange(Program):
    first = Partitioned(Map[int, list[int]])
    second = Partitioned(Counter[int])

    @entry
    def here(self, key: int, n: int) -> int:
        self.first.setdefault(key, []).append(n)
        strange(n)
        return len(self.first[key])

    @entry
    def there(self, key: int, n: int) -> int:
        held = self.first.setdefault(key, [])
        held.append(n)
        size = len(held)
        self.second[size] += 1
        strange(n)
        return self.second[size]


class StrangePairs(Program):
    held = Partitioned(Map[int, list[int]])

    @entry
    def go(self, key: int, n: int) -> int:
        strange(n if n % 2 else 0)
        self.held.setdefault(key, []).append(n)
        self.held.setdefault(key + 1, []).append(n)
        strange(n)
        return len(self.held[key])


@pytest.mark.parametrize(("program", "name"), [(Strange, "here"), (Strange, "there"), (StrangePairs, "go")])
@pytest.mark.parametrize("n", [*RAISED, 11])
def test_whatever_a_row_raises_costs_that_row(tmp_path, program, name, n):
    rows = [(name, (1, 0)), (name, (1, n)), (name, (1, 0))]
    made = Simulated(compile_once(program), tmp_path, 2, bad_rows=BadRows.DEAD_LETTER)
    made.epoch(rows)
    plain = program()
    assert made.replies() == {at: getattr(plain, name)(1, 0) for at in (0, 2)}
    (letter,) = made.dead_letters[name].rows()
    wanted = "RecursionError" if n == 11 else type(RAISED[n]()).__name__
    assert letter["exception"] == wanted
    assert letter["reason"].startswith(f"entry point `{name}` raised {wanted}")
    assert f" in {name}: strange(n" in letter["lines"][0]
    assert len(letter["lines"]) <= LINES_FIRST + 1 + LINES_LAST
    failing = Simulated(compile_once(program), tmp_path / "failing", 2, bad_rows=BadRows.FAIL)
    with pytest.raises(RowError, match=f"raised {wanted}") as caught:
        failing.epoch(rows)
    assert caught.value.code == "MP603"
    str(caught.value).encode()


@pytest.mark.parametrize(("program", "name"), [(Strange, "here"), (StrangePairs, "go")])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, Passing])
def test_who_ends_the_run_is_no_row(tmp_path, monkeypatch, program, name, kind):
    monkeypatch.setitem(RAISED, 1, kind)
    made = Simulated(compile_once(program), tmp_path, 1, bad_rows=BadRows.SKIP)
    with pytest.raises(kind):
        made.epoch([(name, (1, 1))])


class Refusing(Program):
    held = Partitioned(Map[int, int])

    @entry
    def go(self, key: int) -> int:
        self.held[key] = 1
        self.held[key + 1] = 1
        self.abort("\ud800")


def test_a_reason_that_is_no_text_is_refused_where_it_is_given(tmp_path):
    with pytest.raises(ValueError, match="lone surrogates"):
        Refusing().go(1)
    made = Simulated(compile_once(Refusing), tmp_path, 1, bad_rows=BadRows.SKIP)
    assert made.epoch([("go", (1,))]).manifest.counters["total.bad.go"] == 1

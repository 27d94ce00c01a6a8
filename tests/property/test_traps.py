"""Python's own traps: plain Python, the sequential runtime and many partitions say the same, or refuse with a code.

1, 1.0 and True are one key of a dict; -0.0 equals 0.0 and NaN nothing; integers have no end; tuples are no lists; text
may hold halves of characters. Each is tried as a key of state, as a value in state, and as a variable that crosses a
cut.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, each, entry, merged
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import MillpondError, StateError
from millpond.state.codec.keycodec import KeyCodec
from tests.sizes import some_of

pytestmark = pytest.mark.slow


class Level(enum.IntEnum):
    ONE = 1


class Word(str):
    __slots__ = ()


@dataclass(frozen=True)
class Point:
    x: float
    tags: tuple[str, ...]


class Pair(NamedTuple):
    one: int
    other: float


NAN = math.nan
UTC = datetime.UTC
DAY = datetime.date(2026, 8, 1)
POOL: list[Any] = [
    *(0, 1, -1, 255, 256, 2**31, -(2**31), 2**63 - 1, -(2**63)),
    *(2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**30, -(10**30)),
    *(True, False, None),
    *(0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, math.inf, -math.inf, NAN, -NAN, 2.0**53, 2.0**53 + 2),
    *(1 + 0j, complex(NAN, -0.0)),
    *("", "1", "a", "A", "a\0", "a\0b", "\0", "é", "e\u0301", "ß", "\ufffd", "\U0001f600", "\uffff", " ", "x" * 600),
    *("\ud800", "a\udfff", "\ud83d\ude00"),
    *(b"", b"1", b"\0", b"\0\0", b"\xff", b"\x00\xff", b"x" * 600),
    *map(decimal.Decimal, ("1", "1.0", "-0", "NaN", "1E+3")),
    *(DAY, datetime.datetime(2026, 8, 1), datetime.datetime(2026, 8, 1, tzinfo=UTC), datetime.time(1, 2)),  # noqa: DTZ001
    datetime.timedelta(days=-1, microseconds=1),
    *((), (1,), (1, 2), (1, "a"), ("a", 1), ("a", True), ("a", 1.0), ("a\0", 1), ("a", 2**63), (1, (2, [3]))),
    *([], [1], [1, 2], [1, True, 1.0], ["a"], [[1], (1,)], [NAN]),
    *({}, {"a": 1}, {"b": 1, "a": 2}, {1: "a"}, {True: "a"}, {1.0: "a"}, {-0.0: 1}, {(1, 2): [3]}, {"\ud800": 1}),
    *({NAN: 1}, {1: NAN}, {"a": 1.0, "b": -0.0}),
    *({1}, {True}, {1.0}, {"a", "b", "c"}, frozenset({(1, 2)}), {NAN}, {-0.0}, set()),
    *(Level.ONE, Word("a"), Point(-0.0, ("a",)), Pair(1, NAN), {Point(1.0, ()): 1}, {Level.ONE}),
    *(np.int64(1), np.float64(-0.0), np.bool_(True), np.str_("a"), np.array([1, 2]), np.array([NAN, -0.0])),
    *(collections.Counter("aab"), collections.deque([1]), collections.OrderedDict(b=1), range(3), bytearray(b"a")),
    *(len, object, ..., iter([1])),
]  # fmt: skip


def pick(at: int) -> Any:
    return POOL[at]


def told(value: Any) -> str:
    """A value with the types of all its parts, in their order, and the bits of its floats."""
    kind = type(value).__name__
    if isinstance(value, float) and kind == "float":
        return f"{kind} {'nan' if value != value else value.hex()}"  # noqa: PLR0124
    if isinstance(value, np.ndarray):
        return f"{kind} {value.dtype} {value.tobytes().hex()}"
    if isinstance(value, dict):
        return f"{kind} " + "{" + ", ".join(f"{told(key)}: {told(part)}" for key, part in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return f"{kind} {sorted(map(told, value))}"
    if isinstance(value, list | tuple | collections.deque):
        return f"{kind} [{', '.join(map(told, value))}]"
    return f"{kind} {value!a}"


def outcome(run):
    """What a run says, or the code of its refusal; any other exception is a fault."""
    try:
        return run()
    except MillpondError as error:
        str(error).encode()  # it can be printed
        return error.code


compiled_once = functools.cache(compile_program)


def plain_run(program, rows):
    instance = program()
    replies = [getattr(instance, name)(*arguments) for name, arguments in rows]
    return dict(enumerate(replies))


def sequential_run(program, rows):
    sequential = Sequential(compiled_once(program))
    replies = [sequential.call(name, *arguments) for name, arguments in rows]
    sequential.state()
    return dict(enumerate(replies))


def simulated_run(program, rows, size, partitions=2, instances=None):
    """Epochs of `size` rows, each by a driver of its own, so that all state comes from the checkpoint."""
    folder = Path(tempfile.mkdtemp())
    compiled = compiled_once(program)
    replies: dict[int, Any] = {}
    try:
        for at in range(0, len(rows), size):
            simulated = Simulated(compiled, folder, partitions=partitions, instances=instances)
            simulated.epoch(rows[at : at + size])
            replies |= simulated.replies()
    finally:
        shutil.rmtree(folder)
    return replies


def all_runs(program, rows):
    yield outcome(lambda: plain_run(program, rows))
    yield outcome(lambda: sequential_run(program, rows))
    yield outcome(lambda: simulated_run(program, rows, 1 + len(rows) // 4))
    yield outcome(lambda: simulated_run(program, rows, len(rows), partitions=3))


def check_same(program, rows):
    plain, *others = all_runs(program, rows)
    assert isinstance(plain, dict), plain
    assert others == [plain] * len(others)


def check_refused(program, rows):
    codes = list(all_runs(program, rows))
    assert all(isinstance(code, str) and code.startswith(("MP2", "MP6")) for code in codes), codes


# --- keys


class IntKeys(Program):
    held = Partitioned(Map[int, int])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] = self.held.get(key, 0) + 1
        return self.held[key]


class TextKeys(Program):
    held = Partitioned(Map[str, int])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] = self.held.get(key, 0) + 1
        return self.held[key]


class BytesKeys(Program):
    held = Partitioned(Counter[bytes])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] += 1
        return self.held[key]


class BoolKeys(Program):
    held = Partitioned(Counter[bool])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] += 1
        return self.held[key]


class DateKeys(Program):
    held = Partitioned(Counter[datetime.date])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] += 1
        return self.held[key]


class PairKeys(Program):
    held = Partitioned(Counter[tuple[str, int]])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] += 1
        return self.held[key]


class PartialKeys(Program):
    held = Partial(Counter[int])

    @entry
    def put(self, at: int) -> int:
        key = pick(at)
        self.held[key] += 1
        return at


KEYED = [IntKeys, TextKeys, BytesKeys, BoolKeys, DateKeys, PairKeys, PartialKeys]


def fits(program, value):
    codec = program.elements()["held"].type.keys
    try:
        codec.check(value)
    except StateError:
        return False
    return True


@pytest.mark.parametrize("program", KEYED, ids=lambda program: program.__name__)
def test_keys_of_the_declared_type_are_kept_apart_everywhere(program):
    good = [at for at, value in enumerate(POOL) if fits(program, value)]
    assert good
    check_same(program, [("put", (at,)) for at in (*good, *reversed(good))])


def is_hashable(value):
    try:
        return bool({value})
    except TypeError:
        return False


@pytest.mark.parametrize("program", KEYED, ids=lambda program: program.__name__)
def test_a_key_of_another_type_is_refused_everywhere(program):
    bad = [at for at, value in enumerate(POOL) if is_hashable(value) and not fits(program, value)]
    assert len(bad) > 20
    for at in bad[:: 1 if program is IntKeys else 7]:
        codes = [outcome(lambda at=at: plain_run(program, [("put", (at,))]))]
        codes += [outcome(lambda at=at: simulated_run(program, [("put", (at,))], 1))]
        assert all(isinstance(code, str) for code in codes), (POOL[at], codes)


@pytest.mark.parametrize("other", [True, 1.0], ids=["True", "1.0"])
def test_an_equal_key_of_another_type_is_refused_after_the_right_one_was_used(other):
    rows = [("put", (POOL.index(1),)), ("put", (_place(other),))]
    assert plain_run(IntKeys, rows[:1]) == {0: 1}
    assert isinstance(outcome(lambda: plain_run(IntKeys, rows)), str)
    assert isinstance(outcome(lambda: simulated_run(IntKeys, rows, 1)), str)


def test_equal_keys_of_two_types_in_one_epoch_are_refused():
    rows = [("put", (POOL.index(1),)), ("put", (_place(True),))]
    assert isinstance(outcome(lambda: simulated_run(IntKeys, rows, 2)), str)


def _place(wanted):
    return next(at for at, value in enumerate(POOL) if type(value) is type(wanted) and value == wanted)


@pytest.mark.parametrize(
    ("hint", "column", "code"),
    [
        (int, [1, True], "MP207"),
        (int, [1.0, 1], "MP207"),
        (int, [1, 2**63], None),
        (bool, [True, 1], "MP207"),
        (str, ["a", Word("a")], "MP207"),
        (tuple[str, int], [("a", 1), ("a", True)], "MP207"),
        (tuple[str, int], [("a", 1), ["a", 1]], "MP207"),
        (datetime.date, [DAY, datetime.datetime(2026, 8, 1)], "MP207"),  # noqa: DTZ001
        (str, ["a", "b"], None),
        (tuple[str, int], [("a", 1), ("b", 1)], None),
    ],
)
def test_a_column_of_keys_is_checked_without_its_dict_making_equal_ones_one(hint, column, code):
    assert outcome(lambda: KeyCodec(hint).check_types(column)) == code


def test_floats_are_no_keys():
    for hint in (float, complex, tuple[float, int], list[int]):
        with pytest.raises(StateError) as caught:
            KeyCodec(hint)
        assert caught.value.code == "MP202"


def test_integers_that_python_does_not_write_as_text_are_refused_like_others():
    for codec, value in ((KeyCodec(int), 10**5000), (KeyCodec(str), -(10**5000))):
        with pytest.raises(StateError) as caught:
            codec.check(value)
        assert len(str(caught.value)) < 400


# --- values in state


class Values(Program):
    ints = Partitioned(Map[int, int])
    floats = Partitioned(Map[int, float])
    texts = Partitioned(Map[int, str])
    data = Partitioned(Map[int, bytes])
    maybes = Partitioned(Map[int, bool | None])
    numbers = Partitioned(Map[int, decimal.Decimal])
    moments = Partitioned(Map[int, datetime.datetime])
    lists = Partitioned(Map[int, list[int]])
    tuples = Partitioned(Map[int, tuple[int, ...]])
    nested = Partitioned(Map[int, dict[str, float]])
    by_float = Partitioned(Map[int, dict[float, int]])
    sets = Partitioned(Map[int, set[int]])
    words = Partitioned(Map[int, set[str]])
    levels = Partitioned(Map[int, Level])
    points = Partitioned(Map[int, Point])
    pairs = Partitioned(Map[int, Pair])
    either = Partitioned(Map[int, int | float | str])


class KeepBase(Program):
    """One element whose type each subclass below changes; the methods are the same."""

    held = Partitioned(Map[int, int])

    @entry
    def put(self, key: int, at: int) -> str:
        self.held[key] = pick(at)
        return told(self.held[key])

    @entry
    def get(self, key: int) -> str:
        return told(self.held[key])


def keeping(name):
    hint = Values.elements()[name].type.value_hint
    return type(f"Keep_{name}", (KeepBase,), {"held": Partitioned(Map[int, hint])})


@pytest.mark.parametrize("name", list(Values.elements()))
def test_a_value_in_state_stays_what_it_is_or_is_refused(name):
    program = keeping(name)
    codec = program.elements()["held"].type.values
    good = [at for at, value in enumerate(POOL) if outcome(lambda value=value: codec.check(value)) is None]
    assert good
    rows = [row for at in good for row in (("put", (at, at)), ("get", (at,)))]
    rows += [("get", (at,)) for at in good]
    plain = plain_run(program, rows)
    assert outcome(lambda: sequential_run(program, rows)) == plain
    assert outcome(lambda: simulated_run(program, rows, len(good))) == plain
    bad = [at for at in range(len(POOL)) if at not in good]
    for at in bad[:: max(1, len(bad) // 5)]:
        check_refused(program, [("put", (1, at))])


# --- variables that cross a cut


class Crossing(Program):
    there = Partitioned(Counter[int])
    here = Partitioned(Counter[str])

    @entry
    def carry(self, key: int, name: str, at: int) -> str:
        variable = pick(at)
        nested = [pick(at), (pick(at),)]
        self.there[key] += 1
        self.here[name] += 1
        return told(variable) + told(nested)


REFUSED_ON_THE_WAY = {"surrogate", "nan key", "foreign"}


def travels(value):
    text = told(value)
    if "\\ud" in text:
        return "surrogate"
    if isinstance(value, dict | set | frozenset) and any(key != key for key in value):  # noqa: PLR0124
        return "nan key"
    foreign = (Word, bytearray, type, type(len), type(...), type(iter([1])))
    return "foreign" if isinstance(value, foreign) else ""


def test_variables_are_after_a_cut_what_they_were_before_it():
    good = [at for at, value in enumerate(POOL) if not travels(value)]
    check_same(Crossing, [("carry", (at % 5, f"n{at % 3}", at)) for at in good])


@pytest.mark.parametrize("why", sorted(REFUSED_ON_THE_WAY))
def test_what_can_not_cross_a_cut_unchanged_is_refused(why):
    bad = [at for at, value in enumerate(POOL) if travels(value) == why]
    assert bad
    for at in bad:
        rows = [("carry", (1, "n", at))]
        assert isinstance(plain_run(Crossing, rows), dict)
        assert outcome(lambda rows=rows: sequential_run(Crossing, rows)) == "MP601"
    assert outcome(lambda: simulated_run(Crossing, [("carry", (1, "n", bad[0]))], 1)) == "MP601"


class Collisions(Program):
    """Dicts and sets that take 1, 1.0 and True for one: which of them stays is the same before and after a cut."""

    there = Partitioned(Counter[int])

    @entry
    def mix(self, first: int, second: int, key: int) -> str:
        one, other = pick(first), pick(second)
        table = {one: "one"}
        members = {one}
        self.there[key] += 1
        table[other] = "other"
        members.add(other)
        return told(table) + told(members) + told(sorted(map(told, members)))


EQUALS = [_place(value) for value in (0, 1, True, False, 0.0, 1.0)] + [
    next(at for at, value in enumerate(POOL) if isinstance(value, float) and math.copysign(1, value) < 0 and not value)
]


def test_equal_keys_of_dicts_meet_after_a_cut_as_before_it():
    check_same(Collisions, [("mix", (one, other, 7)) for one in EQUALS for other in EQUALS])


# --- the order of state

KEYS_OF = {
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(max_size=3),
    bytes: st.binary(max_size=3),
    datetime.date: st.dates(),
    bool: st.booleans(),
}


class Orders(Program):
    texts = Partial(Map[str, int])
    numbers = Partial(Counter[int])
    seen = Partial(Set[bytes])
    days = Partial(Map[datetime.date, int])
    pairs = Partial(Map[tuple[str, int], int])
    flags = Partial(Counter[bool])
    cells = Partial(Matrix[str, int, int])
    weights = Partial(Vector[int])
    log = Partitioned(List[str])
    latest = Partitioned(Value[list[str]])

    @entry
    def put(self, text: str, number: int, data: bytes, day: datetime.date, flag: bool) -> None:
        self.texts[text] = number
        self.numbers[number] += 1
        self.seen.add(data)
        self.days[day] = number
        self.pairs[text, number] = number
        self.flags[flag] += 1
        self.cells[text, number] += 1
        self.weights[number] += 1.5

    @entry
    def drop(self, text: str, number: int, data: bytes, day: datetime.date, flag: bool) -> None:
        self.texts.pop(text, None)
        self.seen.discard(data)
        self.days.pop(day, None)
        self.pairs.pop((text, number), None)

    @entry
    def note(self, text: str) -> None:
        self.log.append(text)
        self.latest.set(sorted({*self.latest.get([]), text}))

    @entry
    def show(self, which: int) -> list[str]:
        found = [told(key) for key in self.texts]
        found += [told(item) for item in self.numbers.items()]
        found += [told(member) for member in self.seen]
        found += [told(value) for value in self.days.values()]
        found += [told(key) for key in self.pairs.keys()]  # noqa: SIM118
        found += [told(list(self.flags))]
        found += [told(list(self.cells.items()))]
        found += [told(list(self.weights.items()))]
        return found

    @entry
    def history(self, which: int) -> list[str]:
        return [*self.log, "|", *self.latest.get([])]


ARGUMENTS = st.tuples(KEYS_OF[str], KEYS_OF[int], KEYS_OF[bytes], KEYS_OF[datetime.date], KEYS_OF[bool])
ORDER_ROWS = st.one_of(
    st.tuples(st.just("put"), ARGUMENTS),
    st.tuples(st.just("put"), ARGUMENTS),
    st.tuples(st.just("drop"), ARGUMENTS),
    st.tuples(st.just("note"), st.tuples(KEYS_OF[str])),
    st.just(("show", (0,))),
    st.just(("history", (0,))),
)


@settings(max_examples=some_of(12), deadline=None)
@given(st.lists(ORDER_ROWS, max_size=20), st.integers(1, 9))
def test_the_order_of_state_is_that_of_its_keys_everywhere(rows, size):
    rows = [*rows, ("show", (0,)), ("history", (0,))]
    plain = {number: reply for number, reply in plain_run(Orders, rows).items() if reply is not None}
    sequential = Sequential(compiled_once(Orders), instances=1)
    replies = dict(enumerate(sequential.call(name, *arguments) for name, arguments in rows))
    assert {number: reply for number, reply in replies.items() if reply is not None} == plain
    assert simulated_run(Orders, rows, size, partitions=1, instances=1) == plain


class Shown(Program):
    counts = Partial(Map[str, dict[str, int]])

    @entry
    def put(self, key: str, inner: str) -> None:
        self.counts.setdefault(key, {})[inner] = len(inner)

    @entry
    def ask(self, key: str) -> list[list[str]]:
        return merged(each(self.counts).get(key, {}), lists)


def lists(answers):
    return [list(answer) for answer in answers if answer]


@given(st.permutations(["b", "a", "cc", "", "é"]))
@settings(max_examples=some_of(8), deadline=None)
def test_the_order_of_a_dict_in_state_is_that_of_its_filling(order):
    rows = [*(("put", ("k", inner)) for inner in order), ("ask", ("k",))]
    plain = plain_run(Shown, rows)[len(order)]
    assert plain == [list(order)]
    for size in (1, 3, 99):
        assert simulated_run(Shown, rows, size, instances=1, partitions=1)[len(order)] == plain

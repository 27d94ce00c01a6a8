"""Windows as a state element of programs: what is refused, and what plain Python and compiled programs do with them."""

from __future__ import annotations

import ast
import copy
import re
import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cloudpickle
import pytest

from millpond import Counter, Map, Partitioned, Program, entry, on_timer, on_window
from millpond.cli.unseen import read_unseen
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FIRST_US, LAST_US, FeedTime
from millpond.errors import Aborted, MillpondError
from millpond.program.semantics.epoch_time import moment_of
from millpond.testing import epoch_time, event_time, fire_timers
from millpond.windowing import (
    ClosedWindow,
    count,
    count_tumbling,
    days,
    first_of,
    landmark,
    last_every,
    max_of,
    mean_of,
    measured,
    punctuation,
    session,
    several,
    sliding,
    sum_of,
    tumbling,
    user_defined,
    varying,
    viewed,
)
from millpond.windowing.element import WindowRules, Windows, WindowsType
from tests.lengths import us

PAGE = Path(__file__).parents[3] / "docs" / "WINDOWS.md"
SECOND = 1_000_000
TEN = timedelta(seconds=10)


def code_of(call):
    with pytest.raises(MillpondError) as caught:
        call()
    return caught.value.code


class Climate(Program):
    limits = Partitioned(Map[str, float])

    @entry
    def limit(self, sensor: str, celsius: float) -> None:
        self.limits[sensor] = celsius

    @entry
    def measure(self, sensor: str, celsius: float) -> bool:
        if celsius > 1000.0:
            self.recent.add(sensor, celsius)
            self.abort("broken")
        self.recent.add(sensor, celsius=celsius)
        return sensor in self.recent

    @on_window(sliding(TEN, timedelta(seconds=5)), mean=mean_of("celsius"), hottest=max_of("celsius"))
    def recent(self, sensor: str, closed: list[ClosedWindow]) -> list[str]:
        """A docstring comes first."""
        limit = self.limits.get(sensor, 20.0)
        return [f"{one.end:%S} {one['mean']} {self.now:%S}" for one in closed if one["hottest"] > limit]


def measured_at(program, *rows):
    for seconds, sensor, celsius in rows:
        with event_time(seconds * SECOND):
            program.measure(sensor, celsius)


def test_a_handler_is_told_the_windows_of_a_key_that_are_over():
    climate = Climate()
    measured_at(climate, (1, "a", 21.0), (7, "a", 25.0), (3, "b", 19.0), (2, "a", 23.0))
    assert fire_timers(climate, moment_of(4 * SECOND)) == []
    first = fire_timers(climate, moment_of(10 * SECOND))
    assert [(one.key, one.at, one.reply) for one in first] == [
        ("a", moment_of(5 * SECOND), ["05 22.0 05"]),
        ("b", moment_of(5 * SECOND), []),
        ("a", moment_of(10 * SECOND), ["10 23.0 10"]),
        ("b", moment_of(10 * SECOND), []),
    ]
    assert fire_timers(climate, moment_of(10 * SECOND)) == []
    assert [one.reply for one in fire_timers(climate, moment_of(LAST_US))] == [["15 25.0 15"]]
    assert fire_timers(climate, moment_of(LAST_US)) == []
    assert repr(climate.recent).endswith("0 keys)")


def test_a_row_that_aborts_is_in_no_window():
    climate = Climate()
    measured_at(climate, (1, "a", 21.0))
    with pytest.raises(Aborted):
        measured_at(climate, (1, "a", 2000.0))
    assert [one.reply for one in fire_timers(climate, moment_of(10 * SECOND))] == [["05 21.0 05"], ["10 21.0 10"]]
    with pytest.raises(Aborted):
        measured_at(climate, (1, "z", 2000.0))
    assert fire_timers(climate, moment_of(LAST_US)) == []


def test_without_event_time_a_row_is_added_at_the_time_of_its_epoch():
    climate = Climate()
    with epoch_time(1 * SECOND):
        climate.measure("a", 30.0)
        assert fire_timers(climate) == []
    with epoch_time(5 * SECOND):
        assert [one.reply for one in fire_timers(climate)] == [["05 30.0 05"]]
    with epoch_time(12 * SECOND):
        assert [one.reply for one in fire_timers(climate)] == [["10 30.0 12"]]


def test_a_copy_of_a_program_has_windows_of_its_own():
    climate = Climate()
    measured_at(climate, (1, "a", 21.0))
    other = copy.deepcopy(climate.recent)
    measured_at(climate, (1, "a", 31.0))
    (told, *_) = other.fired("a", moment_of(5 * SECOND))
    assert told["mean"] == 21.0


@pytest.mark.parametrize(
    ("windows", "options"),
    [
        ({}, {"many": count()}),
        (TEN, {"many": count()}),
        ({"a": tumbling(TEN), 2: tumbling(TEN)}, {"many": count()}),
        (tumbling(TEN), {}),
        (tumbling(TEN), {"many": len}),
        (tumbling(TEN), {"many": count(), "lateness": 5}),
        (tumbling(TEN), {"many": count(), "lateness": timedelta(seconds=-1)}),
    ],
)
def test_windows_that_are_not_said_are_refused(windows, options):
    assert code_of(lambda: on_window(windows, **options)) == "MP647"


@pytest.mark.parametrize("windows", [count_tumbling(3), punctuation(len)])
def test_only_windows_that_need_no_order_can_be_corrected(windows):
    assert code_of(lambda: on_window(windows, many=count(), lateness=TEN)) == "MP649"
    assert code_of(lambda: on_window(tumbling(TEN), first=first_of("n"), lateness=TEN)) == "MP649"


class Strange(Program):
    @entry
    def put(self, key: str) -> None:
        self.told.add(key)

    @on_window(tumbling(TEN), many=count())
    def told(self, key: str, closed: list[int]) -> None: ...


class Alone(Program):
    @entry
    def put(self, key: str) -> None:
        self.told.add(key)

    @on_window(tumbling(TEN), many=count())
    def told(self, closed: list[ClosedWindow]) -> None: ...


@pytest.mark.parametrize("program", [Strange, Alone])
def test_a_handler_takes_a_key_and_windows(program):
    assert code_of(program) == "MP647"
    assert code_of(lambda: compile_program(program)) == "MP647"


class Sums(Program):
    @entry
    def put(self, key: str, n: int) -> None:
        self.one.add(key, n)
        self.itself.add(key, n)

    @entry
    def wrong(self, key: str, n: int) -> None:
        self.one.add(key, m=n)

    @entry
    def late(self, key: str, n: int) -> None:
        self.first.add(key, m=n)

    @entry
    def much(self, key: str, n: int) -> None:
        self.one.add(key, n, m=n)

    @entry
    def none(self, key: str, n: int | None) -> None:
        self.one.add(key, n)

    @on_window(tumbling(TEN), total=sum_of("n"), many=count())
    def one(self, key: str, closed: list[ClosedWindow]) -> str:
        return f"{key} {closed[0]['total']} {closed[0]['many']}"

    @on_window(tumbling(TEN), total=sum_of(), twice=sum_of(lambda n: 2 * n))
    def itself(self, key: str, closed: list[ClosedWindow]) -> str:
        return f"{key} {closed[0]['total']} {closed[0]['twice']}"

    @on_window(tumbling(TEN), total=first_of("n"))
    def first(self, key: str, closed: list[ClosedWindow]) -> str:
        return key


def test_one_value_is_the_only_column_or_the_record():
    sums = Sums()
    with event_time(1 * SECOND):
        sums.put("a", 3)
        sums.put("a", 4)
    assert [one.reply for one in fire_timers(sums, moment_of(LAST_US))] == ["a 7 2", "a 7 14"]


@pytest.mark.parametrize("name", ["wrong", "late", "much"])
def test_a_row_without_its_columns_is_refused(name):
    assert code_of(lambda: getattr(Sums(), name)("a", 1)) == "MP647"


def test_a_row_whose_value_is_none_is_refused():
    assert code_of(lambda: Sums().none("a", None)) == "MP608"


def test_keys_of_another_type_are_refused():
    assert code_of(lambda: Sums().put(1, 1)) == "MP207"


class Kinds(Program):
    """A window of every kind."""

    @entry
    def put(self, key: str, n: int) -> None:
        self.told.add(key, n=n)

    @on_window(
        {
            "tumbling": tumbling(TEN),
            "day": days("Europe/Berlin"),
            "session": session(timedelta(seconds=2)),
            "count": count_tumbling(2),
            "measure": measured(lambda record: record["n"], 10),
            "mark": punctuation(lambda record: record["n"] % 3 == 0),
            "landmark": landmark(lambda record: record["n"] % 2 == 0, length=timedelta(seconds=3)),
            "varying": varying(lambda _: ("4 s", "2 s")),
            "own": user_defined(lambda seen, _: (1, int(seen > 0), seen + 1), 0),
            "viewed": viewed(lambda seen, _moment, held: (max(0, held - 2), seen % 2 == 1, seen + 1), 0),
            "last": last_every(2, us(4 * SECOND)),
        },
        first=first_of("n"),
        many=count(),
    )
    def told(self, key: str, closed: list[ClosedWindow]) -> list[str]:
        return [f"{one.name} {one.begin} {one.end} {one['first']} {one['many']}" for one in closed]


def test_windows_of_every_kind_are_told_whatever_the_order_of_rows_and_the_cut(tmp_path):
    rows = [(1, 0), (2, 1), (6, 4), (7, 12), (13, 15), (15, 21), (31, 22), (90_000, 30)]
    said = []
    for order in (rows, rows[::-1], [rows[at] for at in (3, 0, 5, 1, 7, 2, 6, 4)]):
        program = Kinds()
        for seconds, n in order:
            with event_time(seconds * SECOND):
                program.put("a", n)
        told = [line for one in fire_timers(program, moment_of(LAST_US)) for line in one.reply]
        said.append(told)
        assert {line.split()[0] for line in told} == set(Kinds.elements()["told"].rules.windows)
    cut, told = Kinds(), []
    for seconds, n in rows:
        with event_time(seconds * SECOND):
            cut.put("a", n)
        told += [line for one in fire_timers(cut, moment_of(seconds * SECOND)) for line in one.reply]
    told += [line for one in fire_timers(cut, moment_of(LAST_US)) for line in one.reply]
    # Cut at every row, windows that end between two rows are told by time, before the next row is looked at.
    assert sorted(told) == sorted(said[0])
    assert said == [said[0]] * 3
    with epoch_time(1):
        feeds = {"put": FeedTime(disorder_us=10**12)}
        simulated = Simulated(compile_program(Kinds), tmp_path, 2, key_groups=8, event_time=feeds)
        for number, (seconds, n) in enumerate(rows[::-1]):
            simulated.epoch([("put", ("a", n))], [seconds * SECOND], ends=number == len(rows) - 1)
    assert [line for row in simulated.sinks["told"].rows() for line in row["reply"]] == said[0]


class Two(Program):
    """Rows over two keys, a handler that goes on to another key with what it was told, and a timer beside it."""

    stock = Partitioned(Counter[str])
    seen = Partitioned(Counter[int])

    @entry
    def move(self, source: str, target: str, n: int) -> None:
        self.flow.add(source, -n)
        self.flow.add(target, n)
        if n == 3:
            self.abort("three")

    @on_window(tumbling(TEN), total=sum_of(), many=count())
    def flow(self, key: str, closed: list[ClosedWindow]) -> list[str]:
        at = sum(one["total"] for one in closed)
        self.stock[key] += at
        self.other.set(key, self.now + timedelta(seconds=at))
        return [
            f"{key} {one.begin:%S} {one['total']} {one['many']} {at} {self.random.randrange(1000)}" for one in closed
        ]

    @on_timer
    def other(self, key: str, at: datetime) -> int:
        return self.stock[key]


class Goes(Program):
    seen = Partitioned(Counter[int])

    @entry
    def put(self, key: str, n: int) -> None:
        self.told.add(key, n)

    @on_window(tumbling(TEN), total=sum_of())
    def told(self, key: str, closed: list[ClosedWindow]) -> str:
        last = closed[-1]["total"]
        self.seen[last] += 1
        return f"{key} {closed[0].begin:%S} {closed[-1].corrected} {[one['total'] for one in closed]}"


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        (Two, [("move", ("a", "b", 1)), ("move", ("b", "a", 3)), ("move", ("a", "a", 2)), ("move", ("c", "a", 3))]),
        (Goes, [("put", ("a", 1)), ("put", ("b", 1)), ("put", ("a", 5)), ("put", ("c", 2))]),
    ],
)
def test_handlers_go_to_other_keys_and_rows_over_two_keys_add(program, rows, tmp_path):
    plain = program()
    times = [1 * SECOND, 4 * SECOND, 14 * SECOND, 2 * SECOND]
    for (name, arguments), time in zip(rows, times, strict=True):
        with event_time(time):
            try:
                getattr(plain, name)(*arguments)
            except Aborted:
                continue
    fired = fire_timers(plain, moment_of(12 * SECOND))
    steps = Sequential(compile_program(program), key_groups=8)
    steps.epoch(rows, times)
    assert steps.fire_timers(12 * SECOND) == [one.reply for one in fired]
    feeds = {rows[0][0]: FeedTime(disorder_us=2 * SECOND)}
    with epoch_time(1):
        simulated = Simulated(compile_program(program), tmp_path, 2, key_groups=8, event_time=feeds)
        simulated.epoch(rows, times)
    handler = "flow" if program is Two else "told"
    wanted = sorted(str(one.reply) for one in fired if one.handler == handler)
    assert sorted(str(row["reply"]) for row in simulated.sinks[handler].rows()) == wanted
    assert len(wanted) > 1


def test_rows_that_may_be_later_than_windows_are_kept_are_refused(tmp_path):
    feeds = {"put": FeedTime(lateness_us=1)}
    assert code_of(lambda: Simulated(compile_program(Goes), tmp_path, 1, event_time=feeds)) == "MP649"


def test_an_entry_that_was_made_for_other_windows_is_not_taken_up():
    """As in a checkpoint that does not note its windows."""
    entries = Map()
    for windows in (tumbling(TEN), session(TEN)):
        container = Windows(WindowRules({"": windows}, several(n=count()), 0), entries)
        container.clock = lambda: SECOND
        if entries:
            assert code_of(lambda one=container: one.add("a", n=1)) == "MP623"
        else:
            container.add("a", n=1)


@pytest.mark.parametrize("program", [Climate, Kinds])
def test_an_element_that_was_sent_away_stores_as_before(program):
    (element,) = (one for one in program.elements().values() if isinstance(one.type, WindowsType))
    assert element.type.values is not None
    sent = cloudpickle.loads(cloudpickle.dumps(element))
    assert sent.type.value_hint is not None
    assert (sent.type.rules.mark, sent.type.rules.text) == (element.type.rules.mark, element.type.rules.text)


def test_the_windows_of_a_file_that_is_not_run_are_seen(tmp_path):
    text = (
        "from datetime import timedelta\n"
        "from millpond import Program, entry, on_window\n"
        "from millpond.windowing import ClosedWindow, sliding, sum_of\n"
        "class Flow(Program):\n"
        "    @entry\n"
        "    def put(self, key: str, n: int) -> None:\n"
        "        self.told.add(key, n)\n"
        "    @on_window(sliding(timedelta(seconds=9), timedelta(seconds=3)), total=sum_of('n'))\n"
        "    def told(self, key: str, closed: list[ClosedWindow]) -> int:\n"
        "        return len(closed)\n"
    )
    path = tmp_path / "flow.py"
    path.write_text(text, encoding="utf-8")
    (found,) = read_unseen(str(path), text, ast.parse(text)).programs
    assert list(compile_program(found).entries) == ["put", "told"]


def test_the_page_does_what_it_says(tmp_path):
    section = PAGE.read_text(encoding="utf-8").partition("## In programs")[2].partition("\n## ")[0]
    names = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", section, re.DOTALL)):
        module = tmp_path / f"page{number}.py"
        module.write_text(block, encoding="utf-8")
        names |= runpy.run_path(str(module))
    assert list(compile_program(names["Climate"]).entries) == ["limit", "measure", "hourly"]
    assert list(compile_program(names["Market"]).entries) == ["trade", "minute", "five"]


def test_moments_are_in_utc():
    climate = Climate()
    measured_at(climate, (1, "a", 21.0))
    (one, *_) = climate.recent.fired("a", datetime(2024, 1, 1, tzinfo=UTC))
    assert (one.begin, one.end) == (moment_of(-5 * SECOND), moment_of(5 * SECOND))
    assert (one.name, one.corrected, dict(one.values)) == ("", False, {"mean": 21.0, "hottest": 21.0})


class Flags(Program):
    @entry
    def put(self, key: str, up: bool) -> None:
        self.told.add(key, up=up)

    @on_window(tumbling(TEN), many=sum_of("up"), whole=sum_of("up", integers=True), share=mean_of("up"))
    def told(self, key: str, closed: list[ClosedWindow]) -> str:
        return f"{key} {[list(one.values.values()) for one in closed]}"


@pytest.mark.parametrize("alone", [False, True])
def test_true_and_false_are_numbers_alone_and_together(alone, tmp_path):
    simulated = Simulated(compile_program(Flags), tmp_path, 1, event_time=FeedTime(disorder_us=20 * SECOND))
    rows, times = [("put", ("a", up)) for up in (True, False, True)], [1 * SECOND, 12 * SECOND, 13 * SECOND]
    for row, time in zip(rows, times, strict=True) if alone else ():
        simulated.epoch([row], [time])
    simulated.epoch([] if alone else rows, [] if alone else times, ends=True)
    assert [row["reply"] for row in simulated.sinks["told"].rows()] == ["a [[1, 1, 1.0], [1, 1, 0.5]]"]


class Forever(Program):
    @entry
    def put(self, key: str, n: int) -> None:
        self.told.add(key, n=n)

    @on_window(session(TEN), lateness=timedelta.max, total=sum_of("n"))
    def told(self, key: str, closed: list[ClosedWindow]) -> str:
        return f"{key} {[(one.begin.second, one['total'], one.change) for one in closed]}"


@pytest.mark.parametrize("since", [0, 253_000_000_020 * SECOND])
def test_windows_may_be_kept_for_ever(since, tmp_path):
    times = FeedTime(lateness_us=LAST_US - FIRST_US)
    simulated = Simulated(compile_program(Forever), tmp_path, 1, event_time=times)
    for key, second in (("a", 5), ("b", 500), ("a", 1), ("a", 9)):
        simulated.epoch([("put", (key, second))], [since + second * SECOND])
    assert [row["reply"] for row in simulated.sinks["told"].rows()] == [
        "a [(5, 5, 'tell')]",
        "a [(5, 5, 'retract'), (1, 6, 'correct')]",
        "a [(1, 6, 'retract'), (1, 15, 'correct')]",
    ]

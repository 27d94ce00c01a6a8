"""Declarations of state that time changes: what is refused, and what plain Python does with timers."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest

from millpond import Counter, List, Map, Matrix, Partitioned, Program, Set, Value, entry, on_timer
from millpond.compiler.compile import compile_program
from millpond.errors import Aborted, MillpondError
from millpond.testing import epoch_time, fire_timers

SECOND = 1_000_000


def code_of(call):
    with pytest.raises(MillpondError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("ttl", [timedelta(), timedelta(seconds=-1), 5, "an hour"])
def test_a_time_to_live_is_a_length_of_time(ttl):
    assert code_of(lambda: Partitioned(Map[str, int], ttl=ttl)) == "MP185"


def test_a_way_to_refresh_needs_a_time_to_live_and_must_be_known():
    assert code_of(lambda: Partitioned(Map[str, int], refresh="access")) == "MP185"
    assert code_of(lambda: Partitioned(Map[str, int], ttl=timedelta(1), refresh="read")) == "MP186"


@pytest.mark.parametrize("declared", [List[int], Matrix[int, int, float]])
def test_what_has_no_entries_of_its_own_can_not_expire(declared):
    assert code_of(lambda: Partitioned(declared, ttl=timedelta(1))) == "MP187"


class Alarm(Program):
    seen = Partitioned(Counter[str])
    note = Partitioned(Value[int], ttl=timedelta(seconds=5))
    names = Partitioned(Set[str], ttl=timedelta(seconds=5))

    @entry
    def see(self, key: str, wait: int) -> int:
        self.seen[key] += 1
        self.ring.set(key, self.now + timedelta(seconds=wait))
        return self.seen[key]

    @on_timer
    def ring(self, key: str, at: datetime) -> tuple[int, float]:
        if self.seen[key] < 3:
            self.seen[key] += 1
            self.ring.set(key, at)
        return self.seen[key], self.now.timestamp()


def test_timers_fire_in_order_at_the_time_that_is_set():
    alarm = Alarm()
    with epoch_time(10 * SECOND):
        for key, wait in (("b", 4), ("c", 3), ("a", 4), ("d", 5)):
            alarm.see(key, wait)
        assert "a" in alarm.ring
        assert alarm.ring.at("a") == datetime(1970, 1, 1, 0, 0, 14, tzinfo=UTC)
        assert fire_timers(alarm) == []
    with epoch_time(14 * SECOND):
        fired = fire_timers(alarm)
    assert [(one.key, one.at.second, one.reply) for one in fired] == [
        ("c", 13, (2, 14.0)),
        ("a", 14, (2, 14.0)),
        ("b", 14, (2, 14.0)),
    ]
    with epoch_time(14 * SECOND + 1):
        assert [one.reply[0] for one in fire_timers(alarm)] == [3, 3, 3], "set again, to a moment that is over"
        assert [one.reply[0] for one in fire_timers(alarm)] == [3, 3, 3]
        assert fire_timers(alarm) == []


def test_a_timer_that_is_moved_or_cancelled_does_not_fire():
    alarm = Alarm()
    with epoch_time(0):
        alarm.see("a", 1)
        alarm.see("b", 1)
        alarm.see("a", 9)
        alarm.ring.cancel("b")
        alarm.ring.cancel("nobody")
    with epoch_time(8 * SECOND):
        assert fire_timers(alarm) == []
    with epoch_time(9 * SECOND):
        assert [one.key for one in fire_timers(alarm)] == ["a"]


@pytest.mark.parametrize("at", [datetime(2024, 1, 1), 5, None])  # noqa: DTZ001 - this is what is refused
def test_a_timer_is_set_to_a_moment_with_a_zone(at):
    alarm = Alarm()
    assert code_of(lambda: alarm.ring.set("a", at)) == "MP280"
    assert "a" not in alarm.ring


def test_a_copy_of_a_program_has_a_time_of_its_own():
    alarm = Alarm()
    with epoch_time(0):
        alarm.note.set(1)
        alarm.names.add("a")
        twin = copy.deepcopy(alarm)
    with epoch_time(3 * SECOND):
        twin.note.set(2)
    with epoch_time(6 * SECOND):
        assert (alarm.note.get(0), twin.note.get(0)) == (0, 2)
        assert (list(alarm.names), list(twin.names)) == ([], [])


def test_handlers_take_a_key_and_a_moment():
    class Few(Program):
        @on_timer
        def ring(self, key: str) -> None: ...

        @entry
        def go(self, key: str) -> None: ...

    class Other(Program):
        @on_timer
        def ring(self, key: str, at: int) -> None: ...

        @entry
        def go(self, key: str) -> None: ...

    assert code_of(Few) == "MP184"
    assert code_of(Other) == "MP184"
    assert code_of(lambda: compile_program(Other)) == "MP184"


def test_a_handler_can_not_abort_not_even_by_a_helper():
    class Refusing(Program):
        @on_timer
        def ring(self, key: str, at: datetime) -> None:
            self._check(key)

        def _check(self, key: str) -> None:
            self.abort(key)

        @entry
        def go(self, key: str) -> None: ...

    assert code_of(Refusing) == "MP188"


def test_timers_are_used_by_their_operations_alone():
    class Called(Program):
        @on_timer
        def ring(self, key: str, at: datetime) -> None: ...

        @entry
        def go(self, key: str) -> None:
            self.ring(key, self.now)

    class Unknown(Program):
        @on_timer
        def ring(self, key: str, at: datetime) -> None: ...

        @entry
        def go(self, key: str) -> None:
            self.ring.start(key)

    assert code_of(lambda: compile_program(Called)) == "MP130"
    assert code_of(lambda: compile_program(Unknown)) == "MP131"


def test_a_subclass_may_have_another_handler():
    class Louder(Alarm):
        @on_timer
        def ring(self, key: str, at: datetime) -> str:
            return key.upper()

    louder = Louder()
    with epoch_time(0):
        louder.see("a", 1)
    with epoch_time(SECOND):
        assert [one.reply for one in fire_timers(louder)] == ["A"]
    assert [name for name in compile_program(Louder).elements if name.startswith("ring")] == ["ring", "ring.due"]


def test_a_call_has_one_time_and_what_it_aborts_renews_nothing():
    class Refused(Program):
        kept = Partitioned(Map[str, list[int]], ttl=timedelta(seconds=5), refresh="access")

        @entry
        def put(self, key: str) -> None:
            self.kept[key] = [1]

        @entry
        def look(self, key: str) -> int:
            self.kept[key].append(2)
            self.abort("no")

    program = Refused()
    with epoch_time(0):
        program.put("a")
    with epoch_time(4 * SECOND), pytest.raises(Aborted, match="no"):
        program.look("a")
    with epoch_time(4 * SECOND + 1):
        assert program.kept["a"] == [1]
    with epoch_time(9 * SECOND + 1):
        assert "a" not in program.kept

"""`self.now` and `self.random` in plain Python."""

from __future__ import annotations

import copy
import datetime

import pytest

from millpond.errors import ProgramError
from millpond.program import Partitioned, ProgramBase, entry
from millpond.program.semantics.ambient import as_written
from millpond.program.semantics.epoch_time import epoch_now, epoch_time, moment_of, now_us
from millpond.program.semantics.row_random import row_random
from millpond.state.containers.counter import Counter

NOON = datetime.datetime(2026, 8, 1, 12, tzinfo=datetime.UTC)


class Dice(ProgramBase):
    seen = Partitioned(Counter[int])

    @entry
    def throw(self, player: int, times: int) -> list[int]:
        return [self.random.randint(1, 6) for _ in range(times)]

    @entry
    def twice(self, player: int) -> tuple[float, float]:
        return self._throw(), self._throw()

    @entry
    def when(self) -> tuple[datetime.datetime, datetime.datetime]:
        first = self.now
        return first, self.now

    @entry
    def plain(self, player: int) -> int:
        self.seen[player] += 1
        return self.seen[player]

    def _throw(self) -> float:
        return self.random.random()


class Quiet(ProgramBase):
    @entry
    def go(self, x: int) -> int:
        return x


class Loaded(Dice):
    @entry
    def again(self, player: int) -> float:
        return self._throw()


def test_a_row_has_the_same_numbers_at_every_call():
    dice = Dice()
    rng = row_random("throw", 1, 5)
    assert dice.throw(1, 5) == dice.throw(1, times=5) == Dice().throw(player=1, times=5)
    assert dice.throw(1, 5) == [rng.randint(1, 6) for _ in range(5)]
    assert dice.throw(1, 20) != dice.throw(2, 20)


def test_a_helper_draws_from_the_numbers_of_the_row_that_called_it():
    rng = row_random("twice", 3)
    assert Dice().twice(3) == (rng.random(), rng.random())


def test_a_subclass_draws_likewise():
    assert Loaded().twice(3) == Dice().twice(3)
    assert Loaded().again(3) == row_random("again", 3).random()


def test_programs_and_their_copies_do_not_share_rows():
    one = Dice()
    other = copy.deepcopy(one)
    assert one.throw(1, 3) == other.throw(1, 3)
    other.plain(1)
    assert (one.plain(1), other.plain(1)) == (1, 2)


def test_random_numbers_outside_a_row_are_refused():
    with pytest.raises(ProgramError) as caught:
        Dice()._throw()
    assert caught.value.code == "MP176"
    dice = Dice()
    with pytest.raises(TypeError):
        dice.throw(1)
    with pytest.raises(ProgramError):
        _ = dice.random


def test_what_the_user_wrote_is_still_there():
    assert as_written(Quiet.go) is not Quiet.go
    assert Dice.entries()["throw"].function is as_written(Dice.throw) is not Dice.throw
    assert Dice.throw.__name__ == "throw"


def test_the_time_is_that_of_the_epoch():
    with epoch_time(NOON):
        assert Dice().when() == (NOON, NOON)
        assert Dice().now == NOON
        with epoch_time(1_000_000):
            assert Dice().now == moment_of(1_000_000) == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
        assert Dice().now == NOON


def test_outside_an_epoch_it_is_the_system_time_and_one_moment_per_call():
    before = epoch_now()
    first, second = Dice().when()
    assert before <= first == second <= epoch_now()
    assert first.tzinfo is datetime.UTC


def test_a_moment_of_another_zone_is_told_in_utc_and_one_without_a_zone_is_refused():
    with epoch_time(NOON.astimezone(datetime.timezone(datetime.timedelta(hours=5)))):
        assert Dice().now.isoformat() == "2026-08-01T12:00:00+00:00"
    with pytest.raises(ValueError, match="time zone"), epoch_time(NOON.replace(tzinfo=None)):
        pass


def test_a_driver_hands_the_moment_on_as_whole_microseconds():
    odd = NOON + datetime.timedelta(microseconds=1)
    with epoch_time(odd):
        chosen = now_us()
    with epoch_time(chosen):
        assert epoch_now() == odd

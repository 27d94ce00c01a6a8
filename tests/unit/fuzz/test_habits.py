"""Programs made of habits equal plain Python, each habit is in many of them, and a wrong answer is found."""

from __future__ import annotations

from collections import Counter

import pytest

from millpond.testing import simulate
from tests.values import manners
from tests.values.habits import HABITS, write


@pytest.mark.parametrize("number", range(8))
def test_a_program_of_habits_equals_plain_python(number):
    verdict, found, made = manners.judge(20260, number)
    assert verdict == "same", (made.habits, found)


def test_every_habit_is_in_more_than_two_programs_of_a_hundred():
    shown = Counter(name for number in range(400) for name in write(7, number).habits)
    assert min(shown[one.name] for one in HABITS) > 8


def test_a_wrong_reply_is_a_mismatch(monkeypatch):
    def wrong(*args, **kwargs):
        run = simulate(*args, **kwargs)
        run.replies[0] = "wrong"
        return run

    monkeypatch.setattr(manners, "simulate", wrong)
    assert manners.judge(20260, 0)[0] == "mismatch"

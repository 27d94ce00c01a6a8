"""What users say of a job is checked when they say it."""

from __future__ import annotations

import pytest

from millpond import BoundedLoss, Durability, Keep, Tuning
from millpond.engine.plan import Level
from millpond.errors import MillpondError


def code_of(make):
    with pytest.raises(MillpondError) as caught:
        make()
    return caught.value.code


@pytest.mark.parametrize(
    ("level", "chosen"),
    [
        ("exactly_once", Level.EXACTLY_ONCE),
        ("replay", Level.REPLAY),
        ("bounded_loss", Level.BOUNDED_LOSS),
        (BoundedLoss(events=3), BoundedLoss(events=3)),
    ],
)
def test_a_level_is_one_of_three_words_or_a_bounded_loss_of_ones_own(level, chosen):
    assert Durability(level).chosen == chosen


def test_a_job_is_exactly_once_and_keeps_a_hundred_epochs_unless_told_otherwise():
    said = Durability()
    assert (said.level, said.keep, said.restore, said.work) == ("exactly_once", Keep(last=100), "on_demand", None)


def test_durability_that_makes_no_sense_is_refused():
    assert code_of(lambda: Durability("now and then")) == "MP494"
    assert code_of(lambda: Durability(None)) == "MP494"
    for keep in (5, "all", None):
        assert code_of(lambda keep=keep: Durability(keep=keep)) == "MP524"
    assert code_of(lambda: Durability(restore="later")) == "MP523"


@pytest.mark.parametrize(
    ("field", "code", "least"), [("retries", "MP527", 0), ("small_epoch", "MP518", 0), ("steps", "MP519", 1)]
)
def test_numbers_of_tuning_are_whole(field, code, least):
    assert getattr(Tuning(**{field: least}), field) == least
    for wrong in (least - 1, True, 1.5, "2", None):
        assert code_of(lambda wrong=wrong: Tuning(**{field: wrong})) == code


def test_memory_is_in_megabytes_and_may_be_unlimited():
    assert Tuning(memory_mb=3).memory_bytes == 3_000_000
    assert Tuning(memory_mb=None).memory_bytes == 0
    for wrong in (0, -1, True, 1.5, "2"):
        assert code_of(lambda wrong=wrong: Tuning(memory_mb=wrong)) == "MP525"

"""Failures travel as data and arrive as the error that a person reads."""

from __future__ import annotations

import pytest

from millpond.engine.failures import as_error, failure_of, refusal
from millpond.engine.messages import Control, decode_control, encode_control
from millpond.engine.plan import BadRows, FeedPlan, Order
from millpond.engine.task.intake import BadRow
from millpond.errors import EpochError, RowError, StorageError


@pytest.mark.parametrize("kind", [EpochError, StorageError, RowError])
def test_an_error_of_ours_arrives_as_what_it_was(kind):
    error = kind("MP310", "a file is damaged", expected="this", found="that", hint="restore it")
    control = Control(0, 0, 0, 0, failure=failure_of(error))
    arrived = as_error(decode_control(encode_control(control)).failure)
    assert type(arrived) is kind
    assert str(arrived) == str(error)


def test_a_bad_row_is_told_with_its_reason_and_its_place():
    feed = FeedPlan("pays", "pay", (), Order.SOURCE, BadRows.FAIL, None, None)
    error = as_error(refusal(BadRow(0, "`account` is null", '{"account": null}', 3, "part-1.parquet", 17), feed))
    assert error.code == "MP602"
    assert "feed `pays`" in str(error)
    assert '`account` is null; row {"account": null} (row 17 of part-1.parquet)' in str(error)


def test_a_failure_of_an_unknown_kind_is_still_an_error():
    failure = failure_of(EpochError("MP430", "x"))
    assert isinstance(as_error(type(failure)("NoSuchError", "MP430", "x")), RowError)

from __future__ import annotations

import datetime

import pytest

from millpond import Program, entry
from millpond.compiler.plan.routing import argument_hash
from millpond.keygroups import hash_many


class Rows(Program):
    @entry
    def all(
        self, a: int, b: float, c: str, d: list[int], e: bool, f: datetime.date, g: bytes, h: int | None, i: int = 5
    ) -> None: ...

    @entry
    def none(self) -> None: ...

    @entry
    def one(self, a: float) -> None: ...


POINTS = Rows.entries()


def test_only_declared_key_types_take_part_in_their_order_and_no_defaults():
    args = [1, 2.0, "x", [3], True, datetime.date(2026, 1, 2), b"y", 4, 6]
    assert argument_hash(POINTS["all"], args) == hash_many((1, "x", True, datetime.date(2026, 1, 2), b"y"))


def test_no_arguments_have_a_hash_too():
    assert argument_hash(POINTS["none"], []) == argument_hash(POINTS["one"], [1.0]) == hash_many(())


def test_a_missing_argument_is_an_error_of_ours():
    with pytest.raises(ValueError, match="shorter"):
        argument_hash(POINTS["one"], [])


def test_a_row_without_a_value_that_takes_part_has_none():
    assert argument_hash(POINTS["all"], [None, 2.0, "x", [3], True, datetime.date(2026, 1, 2), b"y", 4, 6]) is None

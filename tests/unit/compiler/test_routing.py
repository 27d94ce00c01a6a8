from __future__ import annotations

import datetime

import pytest

from millpond.compiler.routing import argument_hash
from millpond.keygroups import hash_many


def test_only_declared_key_types_take_part_in_their_order():
    hints = [int, float, str, list[int], bool, datetime.date, bytes, int | None]
    args = [1, 2.0, "x", [3], True, datetime.date(2026, 1, 2), b"y", 4]
    assert argument_hash(hints, args) == hash_many((1, "x", True, datetime.date(2026, 1, 2), b"y"))


def test_no_arguments_have_a_hash_too():
    assert argument_hash([], []) == argument_hash([float], [1.0]) == hash_many(())


def test_a_missing_argument_is_an_error_of_ours():
    with pytest.raises(ValueError, match="shorter"):
        argument_hash([int, int], [1])

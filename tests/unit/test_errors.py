from __future__ import annotations

import copy
import pickle

import pytest

from millpond import errors
from millpond.errors import MillpondError, SourcePlace, StateError

PLACE = SourcePlace("app.py", 41, 8, "        row = self.m[pick(user)]", width=3)
FAMILIES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MillpondError)]


def test_an_error_tells_code_place_expected_found_and_the_next_step():
    error = StateError("MP200", "this is wrong", places=(PLACE,), expected="this", found="that", hint="do it")
    assert str(error).splitlines() == [
        "MP200 this is wrong",
        "  app.py:41:9",
        "    41 |         row = self.m[pick(user)]",
        "       |         ^^^",
        "  expected  this",
        "  found     that",
        "  next      do it",
    ]


def test_what_is_not_known_is_not_shown():
    assert str(StateError("MP200", "this is wrong")) == "MP200 this is wrong"


def test_a_place_without_width_has_one_caret():
    assert SourcePlace("a.py", 1, 0, "x", width=0).render().count("^") == 1


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["sent", "copied"])
def test_an_error_survives_the_way_between_processes(kind, again):
    error = kind("MP999", "this is wrong", places=(PLACE,), expected="this", found="that", hint="do it")
    back = again(error)
    assert type(back) is kind
    assert str(back) == str(error)
    assert (back.code, back.summary, back.places) == (error.code, error.summary, error.places)
    assert (back.expected, back.found, back.hint) == (error.expected, error.found, error.hint)


def test_every_family_is_caught_by_the_base():
    assert len(FAMILIES) == 26
    for kind in FAMILIES:
        with pytest.raises(MillpondError):
            raise kind("MP999", "this is wrong")

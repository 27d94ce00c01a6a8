"""The counter adds where that of `collections` adds, in every form that it takes."""

from __future__ import annotations

import collections
import random

import pytest

from millpond import Counter as Declared
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.ondemand import MISSING, JournaledCounter, OnDemandCounter
from millpond.state.overlay import DictBase
from millpond.state.sequence.overlay import SequenceOverlay


class Shelf:
    """A base without entries, and nobody who wants to know what was there."""

    def fetch(self, unit):
        return MISSING

    def fetch_all(self):
        return {}

    def note(self, unit):
        pass

    def note_all(self):
        pass


def on_demand(kind):
    made = kind()
    made.source = Shelf()
    return made


def checked():
    element = ElementType.parse(Declared[str], None)
    return element.wrap(element.plain())


FORMS = {
    "bare": Counter,
    "checked": checked,
    "on demand": lambda: on_demand(OnDemandCounter),
    "journaled": lambda: on_demand(JournaledCounter),
    "in sequence": lambda: (SequenceOverlay(ElementType.parse(Declared[str], None), 3, DictBase(), 4)).container,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_update_and_unite_as_the_counter_of_collections(form, seed):
    rng = random.Random(seed)
    counted, known = FORMS[form](), collections.Counter()
    for _ in range(20):
        words = [rng.choice("abcd") for _ in range(rng.randrange(4))]
        counts = {word: rng.randrange(-3, 4) for word in words}
        match rng.randrange(4):
            case 0:
                counted.update(words)
                known.update(words)
            case 1:
                counted.update(counts)
                known.update(counts)
            case 2:
                counted.update(words, e=1)
                known.update(words, e=1)
            case _:
                counted |= counts
                known |= counts
        assert dict(counted) == dict(known)


@pytest.mark.parametrize("form", FORMS)
def test_a_counter_of_state_is_added_to_another(form):
    counted, other = FORMS[form](), checked()
    other.update("aab")
    counted.update(other)
    counted.update(other)
    assert dict(counted) == {"a": 4, "b": 2}

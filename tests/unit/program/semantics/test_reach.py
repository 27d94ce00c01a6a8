"""What a method asks its program for goes by the object that is asked, and is never less than what can happen."""

from __future__ import annotations

import functools

import pytest

from millpond import Counter, Partitioned, Program, entry
from millpond.program.semantics.reach import asked_by


def hand(what, word):
    return what.add(word)


def through(program, word):
    return program.words.add(word)


class Asking(Program):
    """Asks for `words` in many ways; `first` has it in its code for something else alone."""

    words = Partitioned(Counter[str])
    other = Partitioned(Counter[str])

    @entry
    def put(self, word: str) -> None:
        self.words.add(word)

    def of_another(self, word):
        seen = set()
        seen.add(word.words)
        return self.other.get(word)

    def at_once(self, word):
        self.words.add(word)

    def by_name(self, word):
        words = self.words
        words.add(word)

    def handed_on(self, word):
        hand(self.words, word)

    def whole(self, word):
        through(self, word)

    def by_text(self, word):
        getattr(self, "words").add(word)  # noqa: B009

    def word_by_text(self, word):
        getattr(self.words, "add")(word)  # noqa: B009

    def by_method(self, word):
        self.at_once(word)

    def by_entry(self, word):
        self.put(word)

    def inside(self, word):
        return [self.words.add(one) for one in word]

    def by_lambda(self, word):
        return hand(self.other, lambda: self.words.add(word))

    def second_name(self, word):
        program = self
        program.words.add(word)

    bound = functools.partialmethod(through, "x")

    def by_partial(self, word):
        self.bound()

    @staticmethod
    def _static(program, word):
        program.words.add(word)

    def by_static(self, word):
        self._static(self, word)

    def reads(self, word):
        return self.words.get(word)


class Below(Asking):
    def above(self, word):
        super().at_once(word)


FEEDS = [
    name for name in vars(Asking) if name.startswith(("at_", "by_", "handed", "whole", "word_", "inside", "second"))
]


@pytest.mark.parametrize("name", FEEDS)
def test_every_way_to_add_is_seen(name):
    assert asked_by(Asking, vars(Asking)[name]).may("words", "add")


def test_a_way_through_the_class_above_is_seen():
    assert asked_by(Below, Below.above).may("words", "add")


@pytest.mark.parametrize("name", ["of_another", "reads"])
def test_names_of_other_objects_are_not_the_programs(name):
    asked = asked_by(Asking, vars(Asking)[name])
    assert not asked.may("words", "add")
    assert ("words" in asked.names) == (name == "reads")
    assert asked.may("other", "get") == (name == "of_another")

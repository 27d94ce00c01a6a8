from __future__ import annotations

import inspect
import sys

import pytest

from millpond.compiler import compile_program
from millpond.compiler.compile import PASSES
from millpond.compiler.explain import explain
from millpond.errors import ProgramError
from millpond.graph.model import Dispatch
from millpond.program import Partial, Partitioned, ProgramBase, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value


class Flags(ProgramBase):
    counts = Partitioned(Counter[str])
    members = Partitioned(Set[str])
    lists = Partitioned(Map[str, list[int]])
    numbers = Partitioned(Map[str, int])
    shared = Partial(Counter[str])
    total = Partitioned(Value[int])

    @entry
    def count(self, word: str, n: int) -> None:
        self.counts[word] += n
        if n > 3:
            self.members.add(word)
        self.shared[word] -= 1

    @entry
    def count_and_tell(self, word: str) -> int:
        self.counts[word] += 1
        return self.counts[word]

    @entry
    def scale(self, word: str) -> None:
        self.counts[word] *= 2

    @entry
    def read(self, word: str) -> int:
        return self.numbers.get(word, 0)

    @entry
    def read_list(self, word: str) -> int:
        return len(self.lists[word])

    @entry
    def read_all(self, word: str) -> int:
        return merged(each(self.shared).get(word, 0), sum)

    @entry
    def set_total(self, n: int) -> None:
        self.total.set(n)


FLAGS = compile_program(Flags)


@pytest.mark.parametrize(
    ("name", "reads_only", "commutes"),
    [
        ("count", False, True),
        ("count_and_tell", False, False),
        ("scale", False, False),
        ("read", True, True),
        ("read_list", True, True),
        ("read_all", True, True),
        ("set_total", False, False),
    ],
)
def test_an_entry_point_knows_whether_order_can_be_seen(name, reads_only, commutes):
    compiled = FLAGS.entries[name]
    assert (compiled.reads_only, compiled.commutes) == (reads_only, commutes)


def test_a_value_is_reached_by_its_only_key():
    (task,) = FLAGS.entries["set_total"].tasks
    assert (task.dispatch, task.key) == (Dispatch.BY_KEY, ())


def test_every_pass_says_what_it_needs_and_leaves():
    for run in PASSES:
        words = inspect.getdoc(sys.modules[run.__module__]) or ""
        assert "\nNeeds: " in words, run.__module__
        assert "\nLeaves: " in words, run.__module__


def test_compiling_twice_gives_the_same_graph():
    assert compile_program(Flags).graph == FLAGS.graph


def test_an_unknown_format_is_refused():
    with pytest.raises(ProgramError) as refused:
        explain(Flags, "png")  # type: ignore[arg-type]
    assert refused.value.code == "MP108"


def test_a_base_class_lends_state_and_entry_points():
    class Child(Flags):
        extra = Partitioned(Counter[str])

        @entry
        def add(self, word: str) -> None:
            self.extra[word] += 1
            self.counts[word] += 1

    compiled = compile_program(Child)
    assert list(compiled.entries) == [*FLAGS.entries, "add"]
    assert compiled.entries["add"].commutes


def test_each_and_merged_are_known_by_what_they_are_not_by_their_names():
    ask, join = each, merged

    class Renamed(ProgramBase):
        shared = Partial(Counter[str])

        @entry
        def total(self, word: str) -> int:
            return join(ask(self.shared).get(word, 0), sum)

    assert [task.dispatch for task in compile_program(Renamed).entries["total"].tasks] == [
        Dispatch.ONE_TO_ALL,
        Dispatch.ALL_TO_ONE,
    ]

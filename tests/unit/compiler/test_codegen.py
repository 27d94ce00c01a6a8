from __future__ import annotations

import traceback

import pytest

from millpond.compiler import Reply, compile_program
from millpond.errors import ProgramError
from millpond.program import Partial, Partitioned, ProgramBase, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from tests.golden.programs import load, program_in

SCALE = 10
UNUSED = object()


class Divide(ProgramBase):
    results = Partitioned(Map[int, int])

    @entry
    def go(self, a: int, b: int) -> int:
        self.results[a] = a // b
        return SCALE * a


class Cut(ProgramBase):
    ones = Partitioned(Map[int, int])
    twos = Partitioned(Map[int, int])

    @entry
    def go(self, a: int) -> int:
        found = self.ones.get(a)
        if found is None:
            return -1
        return self.twos.get(found, 0)


class Helpers(ProgramBase):
    BASE = 2

    @entry
    def go(self, n: int) -> tuple[int, int]:
        return self._even(n), max([n, 1], key=self._negative)

    def _even(self, n: int, deep: int = 0) -> int:
        return deep if n == 0 else self._odd(n - 1, deep=deep + self.BASE)

    def _odd(self, n: int, *, deep: int = 0) -> int:
        return -deep if n == 0 else self._even(n - 1, deep)

    @staticmethod
    def _negative(n: int) -> int:
        return -n


class NoColumns(ProgramBase):
    seen = Partial(Counter[int])

    @entry
    def size(self) -> int:
        return merged(each(self.seen).__len__(), sum)


def task(program, entry_name, number=0):
    return compile_program(program).entries[entry_name].tasks[number]


def test_a_raise_leaves_the_row_at_fault_as_the_length_of_the_results():
    out: list[int] = []
    with pytest.raises(ZeroDivisionError):
        task(Divide, "go").function(out, {}, [1, 2, 3], [1, 0, 1])
    assert len(out) == 1


def test_a_traceback_shows_the_line_of_the_user():
    with pytest.raises(ZeroDivisionError) as raised:
        task(Divide, "go").function([], {}, [1], [0])
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.line == "self.results[a] = a // b"


def test_globals_are_what_the_code_names():
    function = task(Divide, "go").function
    assert set(function.__globals__) - {"__builtins__", "__name__"} == {"SCALE"}


def test_an_early_return_before_the_last_task_is_a_reply():
    out: list[object] = []
    task(Cut, "go").function(out, {1: 5}, [1, 2])
    passed, replied = out
    assert passed == (1, (5,))
    assert isinstance(replied, Reply)
    assert replied.value == -1


def test_helpers_call_each_other_and_keep_their_defaults():
    out: list[tuple[int, int]] = []
    numbers = [0, 3, 4]
    task(Helpers, "go").function(out, numbers)
    assert out == [Helpers().go(number) for number in numbers]


def test_a_task_without_inputs_runs_once_for_each_row_of_its_column():
    out: list[tuple[int]] = []
    task(NoColumns, "size").function(out, {1: 1, 2: 1}, [None, None, None])
    assert out == [(1, (2,))] * 3


def test_values_of_an_enclosing_function_are_captured():
    factor = 3

    class Closed(ProgramBase):
        @entry
        def go(self, n: int) -> int:
            return n * factor

    out: list[int] = []
    task(Closed, "go").function(out, [1, 2])
    assert out == [3, 6]


def test_a_value_that_the_enclosing_function_has_not_bound_yet_is_refused():
    class Closed(ProgramBase):
        @entry
        def go(self, n: int) -> int:
            return n * later

    with pytest.raises(ProgramError) as refused:
        compile_program(Closed)
    assert refused.value.code == "MP121"
    later = 1
    assert task(Closed, "go") is not None
    assert later == 1


def test_rows_do_not_see_the_variables_of_other_rows(tmp_path):
    text = """
class Leaky(Program):
    @entry
    def go(self, n: int) -> int:
        if n > 1:
            late = n
        return late
"""
    function = task(program_in(load(text, tmp_path)), "go").function
    with pytest.raises(UnboundLocalError):
        function([], [5, 1])


def test_an_inherited_entry_point_sees_the_names_of_its_own_module(tmp_path):
    base = load(
        "FACTOR = 7\nclass Base(Program):\n    @entry\n    def go(self, n: int) -> int:\n        return n * FACTOR\n",
        tmp_path,
    )

    class Child(base.Base):
        pass

    out: list[int] = []
    task(Child, "go").function(out, [2])
    assert out == [14]

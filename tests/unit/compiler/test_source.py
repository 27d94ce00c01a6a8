from __future__ import annotations

import functools
import linecache
import sys
from pathlib import Path

import pytest

from millpond.compiler import compile_program
from millpond.compiler.compile import draft_program
from millpond.compiler.front.source import read_sources
from millpond.errors import ProgramError
from millpond.program import Partitioned, ProgramBase, entry
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from tests.golden.programs import HEAD, load, program_in


class Private(ProgramBase):
    counts = Partitioned(Counter[int])
    __limit = 3

    @entry
    def go(self, x: int) -> int:
        __y = x + self.__limit
        return self.__half(__y)

    def __half(self, n: int) -> int:
        __two = 2
        return n // __two


class Accents(ProgramBase):
    texts = Partitioned(Map[str, str])

    @entry(way="gathered")
    def go(self, x: str) -> str:
        return "éé" + self.texts.items()


class Strings(ProgramBase):
    @entry
    def go(self, x: int) -> str:
        return f"""{x}
not indented
"""


def defined_by(text, name):
    """A class defined as a notebook cell defines it: no file, but lines in linecache."""
    source = HEAD + text
    file = f"<cell {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def test_private_names_are_the_class_own():
    compiled = compile_program(Private)
    out = []
    compiled.entries["go"].tasks[0].function(out, [5])
    assert out == [Private().go(5)] == [4]


def test_a_caret_stands_under_the_character_even_after_accents():
    with pytest.raises(ProgramError) as refused:
        compile_program(Accents)
    (place,) = refused.value.places
    assert place.text[place.column : place.column + place.width] == "self.texts.items()"


def test_strings_with_lines_of_their_own_indent_stay_as_they_are():
    out = []
    compile_program(Strings).entries["go"].tasks[0].function(out, [1])
    assert out == ["1\nnot indented\n"]


def test_a_notebook_cell_has_source():
    text = """
class Cell(Program):
    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> None:
        self.counts[word] += 1
"""
    assert compile_program(defined_by(text, "Cell")).entries["add"].commutes


def test_a_class_without_source_is_refused():
    namespace = {"__name__": "nowhere"}
    text = HEAD + "class Gone(Program):\n    @entry\n    def go(self, x: int) -> int:\n        return x\n"
    exec(compile(text, "<gone>", "exec"), namespace)
    with pytest.raises(ProgramError) as refused:
        compile_program(namespace["Gone"])
    assert refused.value.code == "MP110"


def test_a_file_that_was_changed_after_the_import_is_refused(tmp_path):
    """Also one that only a base is in, which is no program, and holds no entry point."""
    mixin = load("class Adding:\n    @staticmethod\n    def _more(x: int) -> int:\n        return x + 1\n", tmp_path)
    text = "class Edited(Program):\n    @entry\n    def go(self, x: int) -> int:\n        return x + 1\n"
    edited = program_in(load(text, tmp_path))
    mixed = type("Mixed", (mixin.Adding, edited), {})
    for file, refusing, accepting in ((mixin.__file__, [mixed], [edited]), (module_file(edited), [edited, mixed], [])):
        Path(file).touch()
        for program in (*refusing, *accepting):
            assert compile_program(program).steps == 1
        whole = Path(file).read_text(encoding="utf-8")
        Path(file).write_text(whole.replace("x + 1", "x + 22"), encoding="utf-8")
        for program in refusing:
            with pytest.raises(ProgramError, match="was changed after the class was imported") as refused:
                compile_program(program)
            assert refused.value.code == "MP110"
        for program in accepting:
            assert compile_program(program).steps == 1
        Path(file).write_text(whole, encoding="utf-8")


def module_file(program):
    return sys.modules[program.__module__].__file__


def test_a_wrapped_method_is_refused():
    def loud(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    class Wrapped(ProgramBase):
        @entry
        @loud
        def go(self, x: int) -> int:
            return x

    with pytest.raises(ProgramError) as refused:
        compile_program(Wrapped)
    assert refused.value.code == "MP118"


def test_lines_are_those_of_the_file(tmp_path):
    text = "\n\nclass P(Program):\n    @entry\n    def go(self, x: int) -> int:\n        return x\n"
    module = load(text, tmp_path)
    (method,) = draft_program(program_in(module), read_sources).methods
    lines = (HEAD + text).splitlines()
    assert lines[method.tree.body[0].lineno - 1] == "        return x"
    assert method.source.place(method.tree.body[0]).file == module.__file__

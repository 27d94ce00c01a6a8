"""Programs with helpers, as text, and what they do written out and as plain Python."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from millpond.compiler.back.codegen import make_function
from millpond.compiler.compile import draft_program
from millpond.compiler.front.inlining.inline import inline
from millpond.errors import StateError
from millpond.program import ProgramBase
from millpond.program import entry as mark_entry
from tests.golden.programs import load, program_in

STATE = """
class Named:
    def __init__(self, names):
        self.names = names

    def __repr__(self):
        return f"Named({self.names})"

    def __enter__(self):
        self.names.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.names.append("out")
        return kind is LookupError


def double(x):
    return x * 2


class P(Program):
    m = Partitioned(Map[int, int])
    d = Partitioned(Map[int, list[int]])
    said = Partitioned(List[str])
    LIMIT = 7

    def _say(self, n):
        self.said.append(repr(n))
        return n

    def _bump(self, k, by=1):
        old = self.m.get(k, 0)
        self.m[k] = old + by
        return old

    def _push(self, w, n):
        w.append(n)
        self.said.append(repr(w))
        return w

    @classmethod
    def _limited(cls, n):
        return min(n, cls.LIMIT)
"""


def indent(text: str, by: int = 1) -> str:
    return "\n".join("    " * by + line for line in text.splitlines())


def entry(body: str, name: str = "go") -> str:
    return indent(f"@entry\ndef {name}(self, a: int, b: int) -> object:\n{indent(body)}") + "\n"


def helper(head: str, body: str) -> str:
    return indent(f"def {head}:\n{indent(body)}") + "\n\n"


def written_out(program: type[ProgramBase]) -> type[ProgramBase]:
    """The program with its helpers written out in its entry points, as a class of plain Python."""
    draft = draft_program(program, inline)
    methods = {}
    for method in draft.methods:
        assert not [n for n in ast.walk(method.tree) if isinstance(n, ast.Attribute) and n.attr in ("_say", "_bump")]
        method.tree.decorator_list = []
        method.tree.returns = None
        for argument in method.tree.args.args:
            argument.annotation = None
        methods[method.name] = mark_entry(make_function(method.tree, method, {}))
    return type("Written", (program,), methods)


def outcome(function: Callable[..., Any], *args: Any) -> str:
    try:
        return repr(function(*args))
    except UnboundLocalError:
        return "UnboundLocalError"
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError, StateError) as error:
        return repr(error)


def state_of(program: ProgramBase) -> str:
    return repr({name: repr(vars(program)[name]) for name in program.elements()}) + repr(list(program.said))


def assert_same(text: str, tmp_path, calls=((0, 0), (1, 2), (2, 1), (3, 4), (1, 0), (4, 9))) -> None:
    program = program_in(load(text, tmp_path))
    plain, written = program(), written_out(program)()
    for a, b in calls:
        assert outcome(written.go, a, b) == outcome(plain.go, a, b)
        assert state_of(written) == state_of(plain)

"""All errors of a program that do not follow from each other: one for each statement that breaks a rule of its own.

Compiling stops at the first error, since later passes rely on what was refused before. The rules that look at one
statement at a time need nothing of that, so that a program that is refused can be told all of them at once.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping

from millpond.compiler.back.sequence import UncutCheck
from millpond.compiler.compile import draft_program
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.callees import read_helper
from millpond.compiler.front.restrict import Check
from millpond.compiler.front.source import read_sources
from millpond.compiler.ir.patterns import Sites
from millpond.compiler.obstacles import ObstacleError
from millpond.errors import ProgramError
from millpond.program import Element, ProgramBase


def independent_errors(program: type[ProgramBase]) -> list[ProgramError]:
    """The errors of a program's entry points and of the helpers that they use, in the order of the source."""
    try:
        draft = draft_program(program, read_sources)
    except ProgramError:
        return []
    errors: list[ProgramError] = []
    helpers: set[str] = set()
    for method in draft.methods:
        checks = Check(draft, method, helper=False), UncutCheck(draft, method, helper=False)
        helpers |= _look_at(method, *checks, draft.elements, errors)
    looked: set[str] = set()
    while helpers - looked:
        name = min(helpers - looked)
        looked.add(name)
        helpers |= _look_at_helper(draft, name, errors)
    return sorted(errors, key=lambda error: [(place.file, place.line, place.column) for place in error.places[:1]])


def _look_at_helper(draft: Draft, name: str, errors: list[ProgramError]) -> set[str]:
    try:
        helper = read_helper(draft.program, name)
        check = Check(draft, helper, helper=True, inlined=True)
        check.check_decorators()
    except ProgramError as error:
        errors.append(error)
        return set()
    return _look_at(helper, check, UncutCheck(draft, helper, helper=True), draft.elements, errors)


def _look_at(
    method: Method, check: Check, uncut: UncutCheck, elements: Mapping[str, Element], errors: list[ProgramError]
) -> set[str]:
    sites = Sites(method, elements)
    for statement in _one_by_one(method.tree.body):
        try:
            try:
                check.visit(statement)
                sites.of(statement)
            except ObstacleError:
                # It only bars a fast way; refused is what no row in sequence could do either.
                uncut.visit(statement)
        except ProgramError as error:
            errors.append(error)
    return check.helpers


def _one_by_one(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, each without those inside it, which follow; a nested function is one statement."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement
            continue
        bare = copy.copy(statement)
        inner: list[ast.stmt] = []
        for name, value in ast.iter_fields(statement):
            match value:
                case [ast.stmt(), *_]:
                    inner += value
                    setattr(bare, name, [ast.copy_location(ast.Pass(), statement)])
                case [ast.ExceptHandler() | ast.match_case(), *_]:
                    inner += (part for one in value for part in one.body)
                    setattr(bare, name, [_without_body(one, statement) for one in value])
        yield bare
        yield from _one_by_one(inner)


def _without_body(part: ast.ExceptHandler | ast.match_case, statement: ast.stmt) -> ast.ExceptHandler | ast.match_case:
    bare = copy.copy(part)
    bare.body = [ast.copy_location(ast.Pass(), statement)]
    return bare

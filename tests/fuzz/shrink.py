"""Making a failing program small: parts of its tree and rows are removed while the failure stays.

A failure stays if the comparison ends with the same verdict about the same thing; what exactly differs may change.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.compare import Outcome, Verdict, compare
from tests.fuzz.loading import loaded
from tests.fuzz.oracle import expect
from tests.fuzz.rows import Row

TRIES_MAX = 1500
"""Comparisons that one failure may cost."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program, rows for it, and the seed of its epochs and partitions."""

    text: str
    rows: tuple[Row, ...]
    seed: int

    def run(self) -> Outcome:
        """Compare."""
        return compare(self.text, self.rows, self.seed)


Run = Callable[[Case], Outcome]


def shrink(case: Case, run: Run = Case.run, tries: int = TRIES_MAX) -> tuple[Case, Outcome]:
    """The smallest case that was found to fail in the same way, and its outcome; the case itself if it passes."""
    return _Shrinker(case, run, tries).smallest()


class _Shrinker:
    def __init__(self, case: Case, run: Run, tries: int) -> None:
        self._run = run
        self._left = tries
        self._case = case
        self._outcome = run(case)
        self._kind = _kind(self._outcome)
        self._runs = _runs(case)

    def smallest(self) -> tuple[Case, Outcome]:
        while self._outcome.failed and self._left > 0 and _is_python(self._case.text):
            before = self._case
            self._rows()
            self._entries()
            self._tree()
            if self._case == before:
                break
        return self._case, self._outcome

    def _try(self, case: Case) -> bool:
        """Whether a smaller case still fails; if so, go on with it."""
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            outcome = self._run(case)
            # A program that crashes the compiler should stay one that plain Python can run.
            sound = outcome.verdict is not Verdict.CRASH or not self._runs or _runs(case)
        except Exception:  # noqa: BLE001
            # Something that the program needs was removed.
            return False
        if not sound:
            return False
        if not outcome.failed or _kind(outcome) != self._kind:
            return False
        self._case, self._outcome = case, outcome
        return True

    def _rows(self) -> None:
        size = max(1, len(self._case.rows) // 2)
        while size:
            at = 0
            while at < len(self._case.rows):
                fewer = self._case.rows[:at] + self._case.rows[at + size :]
                # Other epochs may be needed for fewer rows.
                if not any(self._try(Case(self._case.text, fewer, self._case.seed + more)) for more in range(3)):
                    at += size
            size //= 2

    def _entries(self) -> None:
        """Remove entry points together with their rows."""
        for name in sorted({entry for entry, _ in self._case.rows}):
            tree = ast.parse(self._case.text)
            body = _program_of(tree).body
            body[:] = [part for part in body if getattr(part, "name", None) != name]
            rows = tuple(row for row in self._case.rows if row[0] != name)
            self._try(replace(self._case, text=_written(tree), rows=rows))

    def _tree(self) -> None:
        """Try every smaller tree, one change at a time, from the top of the program to its leaves."""
        number = 0
        while self._left > 0:
            tree = ast.parse(self._case.text)
            changes = list(_changes(tree))
            if number >= len(changes):
                return
            changes[number]()
            try:
                text = _written(tree)
            except (ValueError, TypeError):
                text = self._case.text
            # After a success the next change stands at the same number.
            if text == self._case.text or not self._try(replace(self._case, text=text)):
                number += 1


def _is_python(text: str) -> bool:
    """Whether a text can be parsed; one that can't is a fault of the generator, and told as it is."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _runs(case: Case) -> bool:
    """Whether plain Python runs at least one of the rows without an exception."""
    try:
        with loaded(case.text) as program:
            expected = expect(program, case.rows)
    except Exception:  # noqa: BLE001
        return False
    return bool(expected.rows)


def _kind(outcome: Outcome) -> tuple[Any, ...]:
    return outcome.verdict, outcome.code, outcome.what.split(" of (")[0]


def _written(tree: ast.AST) -> str:
    text = ast.unparse(tree)
    return text if text.endswith("\n") else text + "\n"


def _program_of(tree: ast.Module) -> ast.ClassDef:
    return [part for part in tree.body if isinstance(part, ast.ClassDef)][-1]


Change = Callable[[], None]


def _changes(tree: ast.Module) -> Iterator[Change]:
    """Changes that make a tree smaller; each is to be made alone. Large ones come first."""
    nodes = list(ast.walk(tree))
    for node in nodes:
        for name in ("body", "orelse", "finalbody", "cases", "handlers"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from _of_block(node, name, block)
    for node in nodes:
        yield from _of_expressions(node)


def _of_block(node: ast.AST, name: str, block: list[Any]) -> Iterator[Change]:
    needed = name in ("body", "cases")
    for size in sorted({len(block) // 2, 2, 1} - {0}, reverse=True):
        for at in range(0, len(block) - size + 1, size):
            rest = block[:at] + block[at + size :]
            if rest or not needed:
                yield lambda rest=rest: setattr(node, name, rest)  # type: ignore[misc]
    for at, statement in enumerate(block):
        for inner in ("body", "orelse", "finalbody"):
            held = getattr(statement, inner, None)
            if isinstance(held, list) and held and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                unwrapped = block[:at] + held + block[at + 1 :]
                yield lambda unwrapped=unwrapped: setattr(node, name, unwrapped)  # type: ignore[misc]
        if isinstance(statement, ast.Match):
            for case in statement.cases:
                unwrapped = block[:at] + case.body + block[at + 1 :]
                yield lambda unwrapped=unwrapped: setattr(node, name, unwrapped)  # type: ignore[misc]


def _of_expressions(node: ast.AST) -> Iterator[Change]:
    """Put a part of an expression, or a constant, in its place."""
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns", "targets", "target", "bases"):
            continue
        places = enumerate(value) if isinstance(value, list) else [(None, value)]
        for at, held in places:
            if not isinstance(held, ast.expr) or isinstance(held, ast.Constant):
                continue
            parts = [part for part in ast.iter_child_nodes(held) if isinstance(part, ast.expr)]
            for smaller in (*parts, *([] if isinstance(held, ast.Name) else _CONSTANTS)):
                yield lambda at=at, smaller=smaller, name=name: _put(node, name, at, smaller)  # type: ignore[misc]
            if isinstance(value, list) and name in ("elts", "values", "args") and len(value) > 1:
                yield lambda at=at, name=name: _drop(node, name, at)  # type: ignore[misc]


_CONSTANTS: Sequence[ast.expr] = (ast.Constant(1), ast.Constant(value=True))


def _put(node: ast.AST, name: str, at: int | None, smaller: ast.expr) -> None:
    chosen = copy.deepcopy(smaller)
    if at is None:
        setattr(node, name, chosen)
    else:
        getattr(node, name)[at] = chosen


def _drop(node: ast.AST, name: str, at: int | None) -> None:
    assert at is not None
    held = list(getattr(node, name))
    held.pop(at)
    setattr(node, name, held)

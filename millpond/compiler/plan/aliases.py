"""Objects of state that are carried where a method is cut: then they are copies, so a change would be lost unseen.

Needs: Method.pieces, Method.body.
Leaves: the draft as it is. A carried variable that is, or holds, an object of state is refused. What variables share
with each other they share after a cut, too: messages keep it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property

from millpond.compiler.analysis.mutability import can_travel
from millpond.compiler.analysis.sharing import Sharing
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method, Piece
from millpond.compiler.ir.jumps import leading_to, reached
from millpond.compiler.ir.patterns import VIEWS, changes, handed_on, is_each
from millpond.errors import ProgramError
from millpond.program import Element
from millpond.state.codec.typenames import type_text

_UNTRAVELLED: Mapping[type[ast.AST], str] = {
    ast.Lambda: "a function",
    ast.GeneratorExp: "a generator",
    ast.FunctionDef: "a function",
}


def check_aliases(draft: Draft) -> Draft:
    """Refuse what a cut would tear apart."""
    for method in draft.methods:
        sharing = Sharing(method, method.body, draft.elements)
        _check_asked(method, sharing)
        for piece in method.pieces[1:]:
            _Cut(method, piece, draft.elements).check()
    return draft


def _check_asked(method: Method, sharing: Sharing) -> None:
    asked = sharing.asked()
    for node in (node for statement in method.body for node in ast.walk(statement)):
        for name in changes(node):
            if name in asked:
                raise refuse(
                    "MP161",
                    f"{_called(name)} is changed, and may be an object of self.{asked[name]}",
                    method.source,
                    node,
                    expected="a merge that gives a value of its own",
                    hint="what instances answer is a copy: let the merge function build something new",
                )


class _Cut:
    def __init__(self, method: Method, piece: Piece, elements: Mapping[str, Element]) -> None:
        self._method = method
        self._piece = piece
        self._elements = elements
        self._before = [method.body[top] for top in sorted(leading_to(method.body, piece.start))]
        self._after = [method.body[top] for top in sorted(reached(method.body, [piece.start], piece.ends))]
        self._sharing = Sharing(method, self._before, elements)

    @cached_property
    def _changed(self) -> frozenset[str]:
        """What the cut carries and may be changed behind it, under whatever name."""
        nodes = [node for statement in self._after for node in ast.walk(statement)]
        changed = {name for node in nodes for name in (*changes(node), *handed_on(node, self._method.scope))}
        after = Sharing(self._method, self._after, self._elements)
        return frozenset(
            name
            for name in self._piece.inputs
            if name in changed or any(after.link(name, other) is not None for other in changed)
        )

    def check(self) -> None:
        """Check the variables that the cut carries."""
        for name in self._piece.inputs:
            self._check_travels(name)
            self._check_state(name)

    def _refuse(self, code: str, summary: str, name: str, expected: str, hint: str) -> ProgramError:
        source = self._method.source
        there = source.place(self._method.body[self._piece.start])
        node = self._sharing.origin(name) or self._method.body[self._piece.start]
        return refuse(code, summary, source, node, expected=expected, found=self._piece.reason, hint=hint, also=[there])

    def _check_travels(self, name: str) -> None:
        for value in self._sharing.values(name):
            kind = _UNTRAVELLED.get(type(value))
            if self._is_view(value):
                kind = "a view (items(), keys() or values())"
            if not can_travel(self._sharing.hint(value)):
                kind = f"of type {type_text(self._sharing.hint(value))}"
            if kind is not None:
                raise self._refuse(
                    "MP164",
                    f"{_called(name)} is {kind}, and the method moves to another task before its use",
                    name,
                    "a value that can travel: numbers, text, lists, dicts, ...",
                    "take what you need of it before the move (a list, a field), or make it after",
                )

    def _is_view(self, value: ast.AST) -> bool:
        match value:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                # The answers of instances leave them as lists.
                return name in VIEWS and not is_each(owner, self._method.scope)
        return False

    def _check_state(self, name: str) -> None:
        for share in self._sharing.of(name):
            if not share.asked and (share.sure or name in self._changed):
                code = "MP162" if share.stored else "MP161"
                what = "was stored in" if share.stored else "is an object of"
                raise self._refuse(
                    code,
                    f"{_called(name)} {what} self.{share.element}, and the method moves to another task before its use",
                    name,
                    "a copy, or a value that can't be changed",
                    "after a move it is a copy and no longer the state's own: "
                    + (
                        "store a copy, e.g. list(x)"
                        if share.stored
                        else "copy it when you read it, e.g. list(self.m[k])"
                    ),
                )


def _called(name: str) -> str:
    return "the value of this expression" if "__" in name else f"`{name}`"

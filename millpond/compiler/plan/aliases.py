"""Objects of state that are carried where a method is cut: then they are copies, so a change would be lost unseen.

Needs: Method.pieces, body and values.
Leaves: the draft as it is. A carried variable that is, or holds, an object of state is refused. What variables share
with each other they share after a cut, too: messages keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from millpond.compiler.analysis.mutability import can_travel
from millpond.compiler.analysis.objs import COLUMN, STATE, Obj, Objs
from millpond.compiler.analysis.points_to import PointsTo
from millpond.compiler.analysis.values import is_states
from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Draft, Method, Piece
from millpond.compiler.ir.jumps import leading_to, reached
from millpond.compiler.ir.model import Instr, Op
from millpond.compiler.ir.patterns import VIEWS
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.state.codec.typenames import type_text

_CHANGING: Final = (Op.SET_ITEM, Op.SET_ATTRIBUTE, Op.DELETE, Op.AUGMENT, Op.METHOD)


def check_aliases(draft: Draft) -> Draft:
    """Refuse what a cut would tear apart."""
    return draft.each(_checked)


def _checked(method: Method) -> Method:
    _check_asked(method)
    for piece in method.pieces[1:]:
        _Cut(method, piece).check()
    return method


def _check_asked(method: Method) -> None:
    values = method.values
    for obj, places in values.points.changed.items():
        for at in places if obj.asked else ():
            one = values.flat.instrs[at]
            if one.op in _CHANGING:
                raise bar(
                    Bars.CUT,
                    "MP161",
                    f"{_called(values.flat.root(one.args[0]))} is changed, and may be an object of self.{obj.name}",
                    method.source,
                    one.node,
                    expected="a merge that gives a value of its own",
                    hint="what instances answer is a copy: let the merge function build something new",
                )


class _Cut:
    def __init__(self, method: Method, piece: Piece) -> None:
        self._method = method
        self._piece = piece
        self._values = method.values

    @cached_property
    def _before(self) -> PointsTo:
        """What holds when the method comes to the cut."""
        return self._values.within(self._tops, self._method.parameters)

    @cached_property
    def _tops(self) -> frozenset[int]:
        return leading_to(self._method.body, self._piece.start)

    @cached_property
    def _stored(self) -> Mapping[Obj, str]:
        """What is in state when the method comes to the cut, each with its element."""
        return {obj: element for element, objs in self._before.stored() for obj in self._before.reach(objs)}

    @cached_property
    def _after(self) -> PointsTo:
        """What the method does behind the cut to what it carries, under whatever name."""
        tops = reached(self._method.body, [self._piece.start], self._piece.ends)
        return self._values.within(tops, self._piece.inputs)

    def _changed(self, name: str) -> bool:
        mine, after = Obj(COLUMN, name).root, self._after
        # Stored in another place, it may be changed there.
        places = {place for place, objs in after.stored() if any(obj.root == mine for obj in after.reach(objs))}
        return any(obj.root == mine or (is_states(obj) and obj.name in places) for obj in after.changed)

    def check(self) -> None:
        """Check the variables that the cut carries."""
        for name in self._piece.inputs:
            self._check_travels(name)
            self._check_state(name)

    def _refuse(self, code: str, summary: str, name: str, expected: str, hint: str) -> ObstacleError:
        source = self._method.source
        there = source.place(self._method.body[self._piece.start])
        node = self._values.origin(name) or self._method.body[self._piece.start]
        return bar(
            Bars.CUT, code, summary, source, node, expected=expected, found=self._piece.reason, hint=hint, also=[there]
        )

    def _check_travels(self, name: str) -> None:
        for one in self._values.sources(name, self._tops):
            kind = self._untravelled(one)
            if kind:
                raise self._refuse(
                    "MP164",
                    f"{_called(name)} is {kind}, and the method moves to another task before its use",
                    name,
                    "a value that can travel: numbers, text, lists, dicts, ...",
                    "take what you need of it before the move (a list, a field), or make it after",
                )

    def _untravelled(self, one: Instr) -> str:
        if one.op is Op.FUNCTION:
            return "a function"
        if one.op is Op.MAKE and one.name == "generator":
            return "a generator"
        # The answers of instances leave them as lists.
        asked = one.site is not None and one.site.everywhere
        if one.op in (Op.METHOD, Op.STATE) and one.name in VIEWS and not asked:
            return "a view (items(), keys() or values())"
        hint = self._values.types.of(one.out) if one.op is Op.STATE and not asked else Any
        return "" if can_travel(hint) else f"of type {type_text(hint)}"

    def _check_state(self, name: str) -> None:
        whole = self._values.points
        if not any(obj.kind == STATE or obj in self._all_stored for obj in whole.reach(whole.of(name))):
            return
        found = self._before.reach(self._before.of(name))
        for obj, sure in sorted(found.items(), key=lambda pair: pair[0].kind != STATE):
            state = is_states(obj)
            if (state or obj in self._stored) and (sure or self._changed(name)):
                element = obj.name if state else self._stored[obj]
                what = "is an object of" if state else "was stored in"
                raise self._refuse(
                    "MP161" if state else "MP162",
                    f"{_called(name)} {what} self.{element}, and the method moves to another task before its use",
                    name,
                    "a copy, or a value that can't be changed",
                    "after a move it is a copy and no longer the state's own: "
                    + ("copy it when you read it, e.g. list(self.m[k])" if state else "store a copy, e.g. list(x)"),
                )

    @cached_property
    def _all_stored(self) -> Objs:
        return self._values.points.in_state()


def _called(name: str) -> str:
    return "the value of this expression" if "__" in name else f"`{name}`"

"""What is proven of entry points that run in sequence: what may be left out when their rows end.

Needs: Draft.whole, the methods as they are written; Draft.sees_sets.
Leaves: Method.renews of these. Where a method can't be lowered, all elements are looked at when its rows end.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Final

from millpond.compiler.analysis.owned import find_owned
from millpond.compiler.analysis.reaching import find_reaching
from millpond.compiler.analysis.values import find_values
from millpond.compiler.draft import Access, Dispatch, Draft, Method, Mode, Piece
from millpond.compiler.front.ambient import set_ambient
from millpond.compiler.front.inlining.inline import inline
from millpond.compiler.front.restrict import restrict
from millpond.compiler.ir.cfg import build_cfgs
from millpond.compiler.ir.normal_form import normalise
from millpond.errors import ProgramError


def _uncut(draft: Draft) -> Draft:
    """Let methods stay as they are written."""
    return replace(draft, methods=tuple(replace(method, gathered="in sequence") for method in draft.methods))


def _in_one_piece(draft: Draft) -> Draft:
    """Let methods be one piece each, which may do anything to every element."""
    return replace(draft, methods=tuple(replace(one, pieces=(_all_of(draft, one),)) for one in draft.methods))


def _all_of(draft: Draft, method: Method) -> Piece:
    accesses = tuple(Access(name, Mode.KEYED, writes=True) for name in draft.elements)
    tops = tuple(range(len(method.body)))
    inputs = method.parameters
    return Piece(f"{method.name}.0", 0, Dispatch.SEQUENCE, "", "", 0, tops, inputs, (), -1, accesses, "in sequence")


_PASSES: Final = (
    inline,
    set_ambient,
    restrict,
    _uncut,
    normalise,
    build_cfgs,
    find_reaching,
    find_values,
    _in_one_piece,
    find_owned,
)


def find_renewed(draft: Draft) -> Draft:
    """Find the elements of each entry point in sequence whose places must be made values when a row ends."""
    return replace(draft, whole=tuple(replace(method, renews=_renews(draft, method)) for method in draft.whole))


def _renews(draft: Draft, method: Method) -> dict[str, str]:
    every = dict.fromkeys(draft.elements, "how it is used is not known")
    if method.point.timer or any(one.partial or one.ttl is not None for one in draft.elements.values()):
        return every
    # Passes change trees in place, and this one is still to be checked, and shown, as it is written.
    own = replace(method, tree=copy.deepcopy(method.tree))
    alone = replace(draft, methods=(own,), whole=(), obstacles={}, gathered={method.name: "in sequence"})
    try:
        for run in _PASSES:
            alone = run(alone)
            if alone.obstacles:
                return every
    except ProgramError:
        return every
    (proven,) = alone.methods
    # What is stored of a column is a copy of the row's own only in code that is generated.
    return every if proven.own else dict(proven.renews)

"""Which variables of a method surely hold keys of an element, so that nobody has to look before a row goes there."""

from __future__ import annotations

from typing import Final

from millpond.compiler.draft import Method
from millpond.compiler.ir.model import Instr, Op
from millpond.compiler.plan.access import comes_as_key
from millpond.program import Element

_TAKING: Final = (Op.COPY, Op.ITEM, Op.ATTRIBUTE, Op.NEXT, Op.UNPACK, Op.SLICE)


def is_sure_key(method: Method, name: str, element: Element) -> bool:
    """Whether a variable holds nothing but keys of an element.

    Types tell it, and where values are taken as they are: what is computed may be out of range.
    """
    if name in method.parameters and name not in method.values.flat.definitions:
        return comes_as_key(method, name, element)
    return method.values.types.of(name) == element.type.key_hint and _is_taken(method, name, frozenset())


def _is_taken(method: Method, name: str, seen: frozenset[str]) -> bool:
    """Whether a variable gets values that were in a row or in state before, nothing that is computed."""
    if name in seen:
        return True
    flat = method.values.flat
    made = [flat.instrs[number] for number in flat.definitions.get(name, ())]
    if not made:
        return name in method.parameters
    return all(_is_as_it_was(method, one, seen | {name}) for one in made)


def _is_as_it_was(method: Method, one: Instr, seen: frozenset[str]) -> bool:
    if one.op is Op.CONST:
        return True
    if one.op in _TAKING or (one.op is Op.METHOD and one.name == "pop" and len(one.args) == 1):
        return _is_taken(method, one.args[0], seen)
    if one.op is Op.MAKE and one.name in ("tuple", "list"):
        return all(_is_taken(method, name, seen) for name in one.args)
    return False

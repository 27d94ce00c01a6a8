"""Which keys the rows of gathered methods may touch, from their arguments alone.

Needs: Method.body and gathered.
Leaves: Method.keys: the parameters that are keys, or where those do not say all, the code that finds the keys.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace

from millpond.compiler.draft import Draft, KeyPlan, Method, Site
from millpond.compiler.ir.patterns import Sites
from millpond.compiler.plan.access import comes_as_key
from millpond.compiler.plan.key_slice.loops import Slice
from millpond.graph.model import Touch
from millpond.program import Element


def find_key_sets(draft: Draft) -> Draft:
    """Plan how the keys of every gathered method are found."""
    return draft.each(lambda method: replace(method, keys=_plan(method, draft.elements)) if method.gathered else method)


def slice_of(method: Method, elements: Mapping[str, Element]) -> Slice:
    """The part of a method that its keys follow from, on nodes of its own."""
    return Slice(method, copy.deepcopy(list(method.body)), elements)


def _plan(method: Method, elements: Mapping[str, Element]) -> KeyPlan:
    finder = Sites(method, elements)
    sites = [site for statement in method.body for site in finder.of(statement)]
    singles = tuple(dict.fromkeys(site.element for site in sites if elements[site.element].type.single))
    keyed = [site for site in sites if site.key is not None]
    columns = _columns(method, keyed, elements)
    if columns is None:
        # Refuses a key that does not follow from the arguments.
        slice_of(method, elements).run()
    return KeyPlan(columns or (), singles, columns is None, tuple(_touches(method, elements)))


def _columns(
    method: Method, sites: list[Site], elements: Mapping[str, Element]
) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """The parameters that hold each element's keys, or None if not all keys are parameters."""
    nodes = [node for statement in method.body for node in ast.walk(statement)]
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    fixed = {name for name in method.parameters if name not in bound}
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for site in sites:
        assert site.key is not None
        parts = site.key.elts if isinstance(site.key, ast.Tuple) else [site.key]
        names = [part.id for part in parts if isinstance(part, ast.Name) and part.id in fixed]
        if len(names) < len(parts) or (isinstance(site.key, ast.Tuple) and len(names) < 2):
            return None
        if not comes_as_key(method, ",".join(names), elements[site.element]):
            return None
        found[site.element, tuple(names)] = None
    return tuple(found)


def _touches(method: Method, elements: Mapping[str, Element]) -> Iterator[Touch]:
    """The read and write sets, by element and key."""
    found: dict[tuple[str, str], tuple[bool, bool]] = {}
    for use in (use for stop in method.stops for use in stop.uses):
        site = use.site
        key = "" if site.key is None else ast.unparse(site.key)
        table = [elements[site.element].type.operations[name] for name in site.operations]
        reads, writes = found.get((site.element, key), (False, False))
        reads = reads or any(not operation.writes or operation.shares for operation in table)
        found[site.element, key] = reads, writes or use.access.writes
    for element in dict.fromkeys(element for element, _ in found):
        yield from (Touch(element, key, *how) for (name, key), how in found.items() if name == element)

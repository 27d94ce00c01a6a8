"""Assignments and deletions over state, target by target where one of them has to be computed at its place.

Python evaluates a target after it has stored into those before, and reads what `+=` changes before the right side. A
key that is taken out of such a statement would be computed too early.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from millpond.compiler.analysis.effects import is_fresh
from millpond.compiler.draft import Site
from millpond.compiler.front.scope import Names
from millpond.compiler.ir.hoist import FreshNames
from millpond.compiler.ir.order import Keeping, named_in, put_slot, single, slots
from millpond.compiler.ir.patterns import Sites


class Apart:
    """Takes statements apart."""

    def __init__(self, sites: Sites, names: FreshNames, is_fixed: Callable[[ast.AST], bool]) -> None:
        self._sites = sites
        self._names = names
        self._is_fixed = is_fixed

    def parts(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that do what a statement does; none if it can stay as it is."""
        match statement:
            case ast.Assign(targets=targets) if self._has_computed(targets):
                return list(self._assigned(statement))
            case ast.AugAssign() if self._reads_early(statement):
                return list(self._augmented(statement))
            case ast.Delete(targets=targets) if len(targets) > 1 or isinstance(targets[0], ast.Tuple | ast.List):
                if any(map(self._sites.of, targets)):
                    return [ast.copy_location(ast.Delete([target]), target) for target in single(targets)]
        return []

    # --- several targets

    def _has_computed(self, targets: list[ast.expr]) -> bool:
        """Whether something has to be computed for a target that is not the only one."""
        if len(targets) == 1 and not isinstance(targets[0], ast.Tuple | ast.List):
            return False
        bound = Names.of(*targets).binds
        return any(self._is_computed(target, bound) for target in targets)

    def _is_computed(self, target: ast.expr, bound: frozenset[str]) -> bool:
        return any(self._has_key_of_its_own(site, bound) for site in self._sites.of(target))

    def _has_key_of_its_own(self, site: Site, bound: frozenset[str]) -> bool:
        if isinstance(getattr(site.node, "ctx", None), ast.Load):
            return True
        return not _is_at_hand(site) or bool(site.key is not None and Names.of(site.key).reads & bound)

    def _assigned(self, statement: ast.Assign) -> Iterator[ast.stmt]:
        bound = Names.of(*statement.targets).binds
        value = statement.value
        shared = len(statement.targets) > 1
        if (
            shared
            and not isinstance(value, ast.Constant)
            and not (isinstance(value, ast.Name) and value.id not in bound)
        ):
            name = self._names.fresh("value")
            yield _assign(_named(name, value, ast.Store()), value, value)
            value = _named(name, value, ast.Load())
        for target in statement.targets:
            yield from self._stored(target, copy.deepcopy(value) if shared else value, bound, statement)

    def _stored(self, target: ast.expr, value: ast.expr, bound: frozenset[str], at: ast.stmt) -> Iterator[ast.stmt]:
        computed = self._is_computed(target, bound)
        if not computed or not isinstance(target, ast.Tuple | ast.List):
            yield _assign(target, value, at)
            return
        # All is unpacked before anything is stored; then each target is evaluated in turn.
        reads = Names.of(target).reads
        later: list[tuple[ast.expr, ast.expr]] = []
        places: list[ast.expr] = []
        for part in target.elts:
            inner = part.value if isinstance(part, ast.Starred) else part
            early = isinstance(inner, ast.Name) and (not later or inner.id not in reads)
            if early or (not later and not self._is_computed(part, bound)):
                places.append(part)
                continue
            name = self._names.fresh("value")
            place = _named(name, part, ast.Store())
            starred = isinstance(part, ast.Starred)
            places.append(ast.copy_location(ast.Starred(place, ast.Store()), part) if starred else place)
            later.append((inner, _named(name, part, ast.Load())))
        yield _assign(ast.copy_location(ast.Tuple(places, ast.Store()), target), value, at)
        for inner, held in later:
            yield from self._stored(inner, held, bound, at)

    # --- augmented assignments

    def _reads_early(self, statement: ast.AugAssign) -> bool:
        """Whether the old value is read before something that will be taken out of the statement."""
        sites = self._sites.of(statement.value)
        if not sites:
            return False
        own = next((site for site in self._sites.of(statement.target) if site.node is statement.target), None)
        if own is not None:
            # What other elements hold has nothing to do with it.
            return any(site.element == own.element and self._sites.writes(site) for site in sites)
        if isinstance(statement.target, ast.Name):
            return statement.target.id in named_in(statement.value)
        if not self._acts(statement.value, sites):
            return False
        every = [*sites, *self._sites.of(statement.target)]
        groups = {(site.element, "" if site.key is None else ast.dump(site.key)) for site in every}
        return len(groups) > 1 or any(not site.certain or site.everywhere or not _is_at_hand(site) for site in sites)

    def _acts(self, value: ast.expr, sites: list[Site]) -> bool:
        """Whether an expression may change something other than state."""
        own = {id(site.node) for site in sites}
        for node in ast.walk(value):
            if isinstance(node, ast.NamedExpr):
                return True
            if isinstance(node, ast.Call) and id(node) not in own:
                meaning = self._sites.method.scope.resolve(node.func)
                if not is_fresh(meaning):
                    return True
        return False

    def _augmented(self, statement: ast.AugAssign) -> Iterator[ast.stmt]:
        out: list[ast.stmt] = []

        def bind(value: ast.expr, at: ast.AST) -> ast.expr:
            name = self._names.fresh("value")
            out.append(_assign(_named(name, at, ast.Store()), ast.copy_location(value, at), at))
            return _named(name, at, ast.Load())

        named = named_in(statement)
        keeping = Keeping(bind, self._is_fixed, lambda name: name in named, lambda _: False)
        target = statement.target
        for slot in slots(target):
            put_slot(slot, keeping.in_slot(slot))
        read = copy.deepcopy(target)
        read.ctx = ast.Load()
        held = bind(read, target)
        assert isinstance(held, ast.Name)
        yield from out
        changed = _named(held.id, target, ast.Store())
        yield ast.copy_location(ast.AugAssign(changed, statement.op, statement.value), statement)
        yield _assign(target, held, statement)


def _is_at_hand(site: Site) -> bool:
    """Whether there is nothing to compute for the key of an access."""
    return site.key is None or isinstance(site.key, ast.Name | ast.Constant)


def _assign(target: ast.expr, value: ast.expr, at: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Assign([target], value), at)


def _named(name: str, at: ast.AST, context: ast.expr_context) -> ast.Name:
    return ast.copy_location(ast.Name(name, context), at)

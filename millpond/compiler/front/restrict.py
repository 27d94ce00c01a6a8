"""What a method may not do: leave the subset, reach out of its program, or give another result when it is run again.

Needs: Method.tree, source and scope.
Leaves: the draft as it is; every later pass may rely on what was refused here.
"""

from __future__ import annotations

import ast
import datetime
import functools
import inspect
from typing import Final

from millpond.compiler.diagnostics import bar, refuse
from millpond.compiler.draft import Draft, Method, Source
from millpond.compiler.front.callees import is_class_method, is_entry, is_helper, is_static, read_helper
from millpond.compiler.front.determinism import why_undetermined, why_undetermined_through
from millpond.compiler.front.meanings import Meanings
from millpond.compiler.front.scope import MISSING, Scope
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.errors import ProgramError
from millpond.program import ProgramBase
from millpond.program.semantics.ambient import AMBIENT
from millpond.program.semantics.rows import ABORT

_SUSPENDS: Final = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)
_STATEMENTS: Final = {
    ast.ClassDef: "define the class at module level",
    ast.Import: "import at module level",
    ast.ImportFrom: "import at module level",
    ast.TryStar: "use a plain except",
}


def restrict(draft: Draft) -> Draft:
    """Check every method, and every helper that it calls."""
    checked: dict[str, set[str]] = {}

    def check(method: Method) -> Method:
        helpers = Check(draft, method, helper=False).run()
        seen: set[str] = set()
        while helpers - seen:
            name = min(helpers - seen)
            seen.add(name)
            if name not in checked:
                checked[name] = Check(draft, read_helper(draft.program, name), helper=True).run()
            helpers |= checked[name]
        return method

    return draft.each(check)


def check_inlined(draft: Draft, helper: Method) -> None:
    """Check a helper that is going to be written out where it is called, and may therefore touch state."""
    Check(draft, helper, helper=True, inlined=True).run()


def check_determined(
    node: ast.expr, source: Source, scope: Scope, meanings: Meanings, moments: frozenset[str] = frozenset()
) -> None:
    """Refuse an expression that would give another result when it is run again."""
    named = isinstance(node, ast.Name | ast.Attribute)
    why = (named and why_undetermined(node, scope)) or why_undetermined_through(node, meanings, scope, moments)
    if why:
        raise refuse(
            "MP117",
            "this is not deterministic: it would give another result when it is run again",
            source,
            node,
            expected="a result that follows from the row and the state alone",
            found=f"{source.text(node)}: {why}",
            hint="make it a column of the feed, and a parameter of the method",
        )


class Check(ast.NodeVisitor):
    """Checks the statements of one method, or of a helper; `helpers` are those that it has come across."""

    def __init__(self, draft: Draft, method: Method, *, helper: bool, inlined: bool = False) -> None:
        self._draft = draft
        self._method = method
        self._helper = helper
        self._inlined = inlined
        self._of_class = helper and is_class_method(draft.program, method.name)
        self._self = "" if helper and is_static(draft.program, method.name) else method.self_name
        self.helpers: set[str] = set()
        self._meanings = Meanings(method.tree, method.scope)
        hints = method.point.parameters
        self._moments = frozenset(n for n, hint in hints if isinstance(hint, type) and issubclass(hint, datetime.date))

    def run(self) -> set[str]:
        """Check the method's body and return the helpers that it uses."""
        self.check_decorators()
        for statement in self._method.tree.body:
            self.visit(statement)
        return self.helpers

    def check_decorators(self) -> None:
        """Refuse a decorator of a helper that changes what it does."""
        tree = self._method.tree
        allowed = self._of_class or is_static(self._draft.program, self._method.name)
        replaced = hasattr(self._method.point.function, "__wrapped__")
        if self._helper and (replaced or len(tree.decorator_list) > allowed):
            meanings = ((self._method.scope.resolve(one), one) for one in tree.decorator_list)
            others = [one for meaning, one in meanings if meaning is not staticmethod and meaning is not classmethod]
            raise self._refuse(
                "MP118",
                "a helper has a decorator",
                (*others, *tree.decorator_list, tree)[0],
                "no decorator but @staticmethod or @classmethod",
            )

    def _refuse(self, code: str, summary: str, node: ast.AST, expected: str, hint: str | None = None) -> ProgramError:
        return refuse(code, summary, self._method.source, node, expected=expected, hint=hint)

    def _unseen(self, code: str, summary: str, node: ast.AST, expected: str, hint: str | None = None) -> ObstacleError:
        return bar(Bars.SIGHT, code, summary, self._method.source, node, expected=expected, hint=hint)

    def generic_visit(self, node: ast.AST) -> None:
        """Refuse what has no place in any method, then go on inside."""
        if isinstance(node, _SUSPENDS) or (isinstance(node, ast.comprehension) and node.is_async):
            at = node.target if isinstance(node, ast.comprehension) else node
            raise self._unseen("MP111", "a method can't yield or await", at, "no yield, await or async")
        if isinstance(node, ast.Nonlocal) and self._method.scope.locals.issuperset(node.names):
            name = node.names[0]
            raise self._unseen(
                "MP113",
                f"a function inside a method can't assign `{name}`, which is the method's own",
                node,
                "functions that return what they find out",
                f"return the new value, and bind it in the method: `{name} = function(...)`",
            )
        if isinstance(node, ast.Global | ast.Nonlocal):
            raise self._unseen(
                "MP113",
                "a method can't assign names outside of it",
                node,
                "state",
                "declare it as state of the program",
            )
        if type(node) in _STATEMENTS:
            raise self._unseen(
                "MP123", "this statement is not allowed in a method", node, "plain statements", _STATEMENTS[type(node)]
            )
        super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Check a nested function, but for its annotations, which need no value."""
        self._check_closed(node)
        for part in (node.args, *node.body, *node.decorator_list):
            self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        """Leave the annotation of a parameter as it is."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Check what is assigned, not the annotation."""
        for part in (node.target, node.value):
            if part is not None:
                self.visit(part)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Check a lambda."""
        self._check_closed(node)
        self.generic_visit(node)

    def _check_closed(self, node: ast.AST) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id == self._self:
                raise self._unseen(
                    "MP112",
                    "a function inside a method can't use the program",
                    part,
                    "a function of its own arguments",
                    "read what it needs into a variable first, and let the function use that",
                )

    def visit_Name(self, node: ast.Name) -> None:
        """Check a name that stands alone."""
        meaning = self._method.scope.resolve(node)
        if meaning is super or (node.id == "__class__" and meaning is not MISSING):
            raise self._unseen(
                "MP116",
                f"`{node.id}` can't be used: methods run without their class",
                node,
                "self.name: a state element, a constant or a helper",
                "give the base class's method a name that no subclass takes, and call it by that: self._name(...)",
            )
        if node.id == self._self:
            raise self._unseen(
                "MP116",
                f"`{node.id}` is used as a value",
                node,
                "self.name: a state element, a constant or a helper",
                "pass what is needed, not the program",
            )
        self._check_determined(node)

    def _check_determined(self, node: ast.expr) -> None:
        check_determined(node, self._method.source, self._method.scope, self._meanings, self._moments)

    def visit_Call(self, node: ast.Call) -> None:
        """Check a call."""
        self._check_determined(node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Check an attribute: of the program, or of anything else."""
        if isinstance(node.value, ast.Name) and node.value.id == self._self:
            self._own(node)
            return
        self._check_determined(node)
        self.generic_visit(node)

    def _own(self, node: ast.Attribute) -> None:
        name = node.attr
        program = self._draft.program
        if not isinstance(node.ctx, ast.Load):
            state = name in self._draft.elements
            raise self._refuse(
                "MP114",
                "a state element can't be replaced" if state else "an attribute is set that is not declared as state",
                node,
                f"an operation on it, such as self.{name}.clear()" if state else "a declared state element",
                None
                if state
                else f"declare `{name} = Partitioned(Value[...])` in the class, and use self.{name}.set(x)",
            )
        if name in self._draft.elements:
            if self._of_class:
                raise self._without_instance("touches state", node)
            # Every other helper that touches state is written out before it comes here.
            assert self._inlined or not self._helper
        elif is_entry(program, name):
            raise self._unseen(
                "MP119",
                "an entry point calls another",
                node,
                "code of its own",
                "put what both do into a helper that takes values and returns values",
            )
        elif is_helper(program, name):
            if self._of_class and not (is_class_method(program, name) or is_static(program, name)):
                raise self._without_instance(f"calls `{name}`", node)
            self.helpers.add(name)
        elif name == ABORT:
            if self._of_class:
                raise self._without_instance("calls `abort`", node)
        elif name not in AMBIENT and not self._is_constant(name):
            raise self._no_member(name, node)

    def _no_member(self, name: str, node: ast.AST) -> ProgramError:
        member = inspect.getattr_static(self._draft.program, name, MISSING)
        expected = "a state element, a constant or a helper"
        if isinstance(member, property | functools.cached_property):
            return self._unseen(
                "MP115",
                f"`{name}` is a property, which can't be read in a method",
                node,
                expected,
                f"make it a helper, without @{type(member).__name__}, and call it: self.{name}()",
            )
        if member is not MISSING and not hasattr(ProgramBase, name):
            kind = type(member).__name__.strip("_")
            return self._unseen(
                "MP115",
                f"`{name}` is a {kind}, which asks for the program that it is called on",
                node,
                expected,
                f"make it a plain helper: def {name}(self, ...)",
            )
        return self._unseen("MP115", f"the program has no `{name}`", node, expected)

    def _is_constant(self, name: str) -> bool:
        member = inspect.getattr_static(self._draft.program, name, MISSING)
        # What is no function and yet bound to an instance (a cache, a partialmethod) has none in a task.
        bound = hasattr(type(member), "__get__") and not isinstance(member, staticmethod)
        return member is not MISSING and not bound and not hasattr(ProgramBase, name)

    def _without_instance(self, does: str, node: ast.AST) -> ProgramError:
        return self._refuse(
            "MP120",
            f"the class method `{self._method.name}` {does}, which a class does not have",
            node,
            "constants of the class, and its static and class methods",
            f"leave @classmethod out: def {self._method.name}(self, ...)",
        )

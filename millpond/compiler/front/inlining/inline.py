"""Helpers that touch state, written out where they are called, so that all later passes see plain statements.

Needs: Method.tree, source and scope.
Leaves: Method.tree without calls of such helpers; their variables have names of their own, and what they mean by a name
of their module is in Method.scope. Method.source shows their lines too. Helpers that touch no state stay calls.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from typing import Any, Final

from millpond.compiler.diagnostics import bar, refuse
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.inlining.arguments import Arguments, is_constant, match_arguments
from millpond.compiler.front.inlining.bound import loosely_bound
from millpond.compiler.front.inlining.evaluation import Calls, Evaluation
from millpond.compiler.front.inlining.helpers import Helper, Helpers, is_own
from millpond.compiler.front.inlining.joining import join_sources
from millpond.compiler.front.inlining.remove_returns import LostReturnError, WithoutReturns, without_returns
from millpond.compiler.front.inlining.renaming import Renaming
from millpond.compiler.front.scope import MISSING
from millpond.compiler.ir.hoist import FreshNames
from millpond.compiler.ir.order import is_bare
from millpond.compiler.ir.patterns import is_each
from millpond.compiler.obstacles import Bars
from millpond.errors import ProgramError

CALLS_MAX: Final = 200
"""Calls that are written out in one entry point; helpers that call helpers twice each would grow without bound."""


def inline(draft: Draft) -> Draft:
    """Write out the helpers that touch state in every entry point that calls them."""
    helpers = Helpers(draft)

    def written_out(method: Method) -> Method:
        touching = helpers.touching(method)
        return _Inliner(helpers, method, touching).run() if touching else method

    return draft.each(written_out)


class _Inliner:
    def __init__(self, helpers: Helpers, method: Method, touching: frozenset[str]) -> None:
        self._helpers = {name: helpers[name] for name in sorted(touching)}
        self._method = method
        self._source = method.source
        self._locals = set(method.scope.locals)
        self._outside: dict[str, Any] = {}
        used = _names_in(method.tree) | method.scope.locals
        parameters = {method.self_name, *method.parameters}
        self._loose = set(loosely_bound(method.tree.body, method.scope.locals, parameters))
        # A helper's variable keeps its name unless the name means something here, or in a helper that may follow.
        self._taken = used.union(*(helper.outside for helper in self._helpers.values()))
        trees = (helper.method.tree for helper in self._helpers.values())
        self._names = FreshNames(used.union(*map(_names_in, trees)))
        self._stack: list[str] = []
        self._written = 0
        calls = Calls(self._is_call, self._write, self._fresh, self._is_fixed, self._misplaced)
        self._evaluation = Evaluation(calls)

    def run(self) -> Method:
        """The method with its helpers written out."""
        tree = copy.deepcopy(self._method.tree)
        self._check_called(tree)
        tree.body = self._evaluation.block(tree.body)
        scope = self._method.scope
        scope = replace(scope, closure={**scope.closure, **self._outside}, locals=frozenset(self._locals))
        return replace(self._method, tree=tree, source=self._source, scope=scope)

    def _is_call(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._is_touching(node.func)

    def _is_touching(self, node: ast.AST) -> bool:
        return is_own(node, self._method.self_name) and node.attr in self._helpers

    def _is_fixed(self, node: ast.AST) -> bool:
        """Whether a node means the same after a helper has run."""
        scope = self._method.scope
        if is_bare(node) or is_own(node, self._method.self_name):
            return True
        return is_each(node, scope) or scope.resolve(node) is not MISSING

    # --- names

    def _fresh(self, prefix: str) -> str:
        name = self._names.fresh(prefix)
        self._taken.add(name)
        self._locals.add(name)
        return name

    def _variable(self, wanted: str) -> str:
        """A variable of the method for a variable of a helper."""
        if wanted in self._taken:
            return self._fresh(wanted)
        self._taken.add(wanted)
        self._locals.add(wanted)
        return wanted

    def _meaning(self, name: str, helper: Helper, node: ast.AST) -> str:
        """What to call something that a helper finds outside itself."""
        value = helper.method.scope.lookup(name)
        if value is MISSING:
            raise refuse(
                "MP121",
                f"`{name}` is not defined outside the helper",
                helper.method.source,
                node,
                expected="a name of the module, of the enclosing function, or a builtin, bound before compiling",
                found=name,
            )
        return name if self._method.scope.lookup(name) is value else self._bound_to(name, value)

    def _bound_to(self, wanted: str, value: Any) -> str:
        """A name for a value from outside the method."""
        for name, known in self._outside.items():
            if known is value and name.startswith(f"{wanted}__"):
                return name
        name = self._names.fresh(wanted)
        self._taken.add(name)
        self._outside[name] = value
        return name

    # --- a call

    def _write(self, call: ast.Call, wanted: bool) -> ast.expr:
        assert isinstance(call.func, ast.Attribute)
        helper = self._helpers[call.func.attr]
        self._check_call(call, helper)
        names, constants = self._give(match_arguments(call, helper, self._source), helper, call)
        for variable in sorted(helper.locals - names.keys() - constants.keys()):
            names[variable] = self._variable(variable)
            if variable in helper.loose and self._evaluation.loops:
                # A call starts without a value, though the one before may have left one.
                self._evaluation.unbind(names[variable], call)
        self._loose |= {names[variable] for variable in helper.loose if variable in names}
        if helper.self_name:
            names[helper.self_name] = self._method.self_name
        self._stack.append(helper.name)
        written = self._unreturned(self._body(helper, names, constants), helper, call, wanted=wanted)
        for statement in written.statements:
            self._evaluation.add(statement)
        result = self._evaluation.result(written.result)
        self._stack.pop()
        return result if wanted or not self._is_idle(result) else ast.copy_location(ast.Constant(None), call)

    def _is_idle(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id not in self._loose)

    def _give(self, arguments: Arguments, helper: Helper, call: ast.Call) -> tuple[dict[str, str], dict[str, ast.expr]]:
        """Evaluate the arguments of a call; return the variables or the constants that stand for the parameters."""
        names: dict[str, str] = {}
        constants: dict[str, ast.expr] = {}
        rest: list[ast.expr] = []
        others: dict[str, ast.expr] = {}
        for parameter, key, argument in arguments.given:
            value = self._evaluation.value(argument)
            if key:
                others[key] = self._evaluation.kept(value)
            elif parameter is None:
                rest.append(self._evaluation.kept(value))
            elif self._can_stand_for(value, parameter, helper):
                assert isinstance(value, ast.Name)
                names[parameter] = value.id
            elif _can_be_written(value, parameter, helper):
                constants[parameter] = value
            else:
                names[parameter] = self._variable(parameter)
                self._evaluation.assign(names[parameter], value, argument)
        made: list[tuple[str, ast.expr]] = [(name, self._default(name, value)) for name, value in arguments.defaults]
        if arguments.rest:
            made.append((arguments.rest, ast.Tuple(rest, ast.Load())))
        if arguments.others:
            keys: list[ast.expr | None] = [ast.copy_location(ast.Constant(key), call) for key in others]
            made.append((arguments.others, ast.Dict(keys, list(others.values()))))
        for parameter, value in made:
            if _can_be_written(value, parameter, helper):
                constants[parameter] = value
                continue
            names[parameter] = self._variable(parameter)
            self._evaluation.assign(names[parameter], ast.copy_location(value, call), call)
        return names, constants

    def _default(self, parameter: str, value: Any) -> ast.expr:
        return ast.Constant(value) if is_constant(value) else ast.Name(self._bound_to(parameter, value), ast.Load())

    def _can_stand_for(self, value: ast.expr, parameter: str, helper: Helper) -> bool:
        """Whether a variable is what a parameter is for as long as the helper runs, so that no other one is needed."""
        return (
            isinstance(value, ast.Name)
            and not self._evaluation.is_named(value.id)
            and value.id not in self._loose | helper.inner
            and parameter not in helper.rebound | helper.captured
        )

    def _body(self, helper: Helper, names: dict[str, str], constants: dict[str, ast.expr]) -> list[ast.stmt]:
        """A copy of a helper's body with the names, and the line numbers, of this method."""

        def rename(name: str, node: ast.AST) -> str:
            return names[name] if name in names else self._meaning(name, helper, node)

        first, *others = helper.method.tree.body
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        renaming = Renaming(rename, constants)
        body = [renaming.visit(copy.deepcopy(part)) for part in (others if documented else [first, *others])]
        self._source, shift = join_sources(self._source, helper.method.source)
        for statement in body:
            ast.increment_lineno(statement, shift)
            self._check_called(statement)
        return body

    def _unreturned(self, body: list[ast.stmt], helper: Helper, call: ast.Call, *, wanted: bool) -> WithoutReturns:
        try:
            return without_returns(body, self._fresh, self._is_idle, call, wanted=wanted)
        except LostReturnError as error:
            raise bar(
                Bars.SIGHT,
                "MP173",
                f"a return of `{helper.name}` can't be followed",
                self._source,
                error.node,
                expected="returns that nothing can take back: not in a finally, nor in a with or a finally inside"
                " another with or try",
                hint="assign the result to a variable, and return it at the end of the helper",
            ) from None

    # --- refusals

    def _check_call(self, call: ast.Call, helper: Helper) -> None:
        self._written += 1
        if helper.name in self._stack:
            raise bar(
                Bars.SIGHT,
                "MP127",
                f"`{helper.name}` touches state and calls itself"
                + (f" through `{self._stack[-1]}`" if self._stack[-1] != helper.name else ""),
                self._source,
                call,
                expected="recursion among helpers that touch no state",
                hint="write a loop, or read what is needed first and let a helper without state recur over it",
            )
        if self._written > CALLS_MAX:
            raise bar(
                Bars.SIGHT,
                "MP172",
                f"`{self._method.name}` calls helpers that touch state more than {CALLS_MAX} times",
                self._source,
                call,
                expected=f"at most {CALLS_MAX} such calls, counted through all helpers",
                hint="every call is written out: let helpers take and return values, and touch state in few places",
            )
        if helper.outliving is not None and self._evaluation.loops:
            raise bar(
                Bars.SIGHT,
                "MP174",
                f"a function or generator of `{helper.name}` may be used after the call, which is in a loop",
                helper.method.source,
                helper.outliving,
                expected="functions and generators that are used up at once, as in sorted(x, key=...) or sum(...)",
                hint="make a list of the generator; give the function what it needs as arguments",
                also=[self._source.place(call)],
            )

    def _check_called(self, tree: ast.AST) -> None:
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if self._is_touching(node) and id(node) not in called:
                assert isinstance(node, ast.Attribute)
                raise bar(
                    Bars.SIGHT,
                    "MP171",
                    f"`{node.attr}` touches state and is used without being called",
                    self._source,
                    node,
                    expected=f"a call: {self._source.text(node)}(...)",
                    hint="write a loop that calls it, in the place of map(), sorted(key=...) and the like",
                )

    def _misplaced(self, node: ast.AST, where: str, hint: str) -> ProgramError:
        assert isinstance(node, ast.Call)
        return bar(
            Bars.SIGHT,
            "MP170",
            f"a helper that touches state can't be called {where}",
            self._source,
            node,
            expected="a call in a statement",
            hint=hint,
        )


def _can_be_written(value: ast.expr, parameter: str, helper: Helper) -> bool:
    """Whether a value is a constant that can be written wherever a parameter stands; then it need not be carried."""
    constant = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    if not isinstance(constant, ast.Constant) or parameter in helper.rebound | helper.objects:
        return False
    return parameter not in helper.compared or any(constant.value is one for one in (None, True, False))


def _names_in(tree: ast.AST) -> set[str]:
    """All names that occur in a tree, whatever they are for."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}

"""Entry points that run in sequence: whole and uncut, as the plain Python that they are.

Needs: Draft.whole, the methods as they are written.
Leaves: their compiled form. Whatever Python runs in one way only is taken; refused is what gives another result when it
is run again, what changes objects outside of a row, and what no run could do.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.analysis.outside.check import check_outside
from millpond.compiler.analysis.sets.order import check_set_order
from millpond.compiler.analysis.values import find_values
from millpond.compiler.back.direct import DirectCode, direct_code
from millpond.compiler.compiled import CompiledEntry, CompiledTask, Done
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.ambient import check_reads
from millpond.compiler.front.callees import helper_function, is_entry, is_helper, is_static, read_helper
from millpond.compiler.front.inlining.helpers import is_own
from millpond.compiler.front.inlining.inline import inline
from millpond.compiler.front.restrict import Check
from millpond.compiler.front.scope import MISSING
from millpond.compiler.ir.normal_form import normalise
from millpond.errors import ProgramError
from millpond.graph.model import Access, Dispatch, Edge, Graph, Mode, TaskNode
from millpond.program import Element, EntryPoint, ProgramBase
from millpond.program.semantics.ambient import AMBIENT, ROW, Row
from millpond.program.semantics.reach import names_in_reach
from millpond.program.semantics.rows import ABORT
from millpond.state.copying import copied

_FLAT: Final = frozenset((int, float, str, bytes, bool, type(None)))
IN_SEQUENCE: Final = "rows in sequence work on its own objects"
_SETTERS: Final = (setattr, delattr, vars, object.__setattr__, object.__delattr__)


def check_sequence(draft: Draft) -> None:
    """Refuse what an entry point that runs in sequence may not do."""
    for method in draft.whole:
        check_set_order(replace(draft, methods=(method,)))
        check_reads(method)
        named = names_in_reach(draft.program, method.point.function)
        helpers = sorted(name for name in named if is_helper(draft.program, name))
        waiting, checked = [*helpers, method.name], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in checked:
                checked.add(name)
                one = method if name == method.name else read_helper(draft.program, name)
                waiting += sorted(UncutCheck(draft, one, helper=one is not method).run())
        check_outside(replace(draft, methods=(_written_out(draft, method),)))


def _written_out(draft: Draft, method: Method) -> Method:
    """The method with its helpers written out, if that can be: so it is seen what they leave in state."""
    try:
        (written,) = inline(replace(draft, methods=(method,))).methods
    except ProgramError:
        return method
    return written


def with_copies(draft: Draft, method: Method) -> Method:
    """Return a method that runs in sequence with what it stores as a copy, as far as that is seen."""
    written = replace(_written_out(draft, method), gathered=IN_SEQUENCE, whole=True)
    (seen,) = find_values(normalise(replace(draft, methods=(written,)))).methods
    return seen if seen.found is None else replace(seen, copies=tuple(seen.values.stored_again()))


def renewed(draft: Draft, method: Method) -> dict[str, str]:
    """Return the elements whose places are made values when a row in sequence ends, each with the reason."""
    named = names_in_reach(draft.program, method.point.function)
    return {
        name: IN_SEQUENCE
        for name, element in draft.elements.items()
        if name in named and element.type.holds_objects and not is_frozen(element.type.value_hint)
    }


class UncutCheck(Check):
    """Checks a method that is not cut, or a helper of one."""

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802
        """Check a name that stands alone; the program itself may be handed on."""
        if node.id == self._self:
            return
        scope = self._method.scope
        unknown = scope.lookup(node.id) is MISSING and node.id not in scope.locals and not hasattr(node, "bound_inside")
        if unknown and isinstance(node.ctx, ast.Load) and node.id != "__class__":
            raise self._refuse(
                "MP121",
                f"`{node.id}` has no value outside the method",
                node,
                "a name of the module, of the enclosing function, or a builtin, bound before compiling",
            )
        self._check_determined(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Refuse what has no place in any method, then go on inside."""
        inside = isinstance(node, ast.Yield | ast.YieldFrom) and (
            self._helper or not _suspends(self._method.tree, node)
        )
        if inside or isinstance(node, ast.Nonlocal | ast.TryStar):
            ast.NodeVisitor.generic_visit(self, node)
        else:
            super().generic_visit(node)

    def _check_closed(self, node: ast.AST) -> None:
        """Take functions inside a method as they are: they may use the program."""

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        """Check a call; the program's own attributes are set in no other way than by name."""
        if any(isinstance(one, ast.Name) and one.id == self._self for one in node.args):
            meaning = self._method.scope.resolve(node.func)
            if any(meaning is setter for setter in _SETTERS):
                raise self._refuse(
                    "MP114",
                    "an attribute of the program is not state",
                    node,
                    "a declared state element",
                    "declare it in the class, and change it by its operations",
                )
        if is_own(node.func, self._self) and node.func.attr in self._draft.elements:
            raise self._refuse(
                "MP130",
                "a state element is called",
                node,
                f"an operation on it, such as self.{node.func.attr}.{min(self._operations(node.func.attr))}(...)",
            )
        if is_own(node.func, self._self) and is_helper(self._draft.program, node.func.attr):
            self._check_call(node, node.func.attr)
        super().visit_Call(node)

    def _operations(self, element: str) -> list[str]:
        return [name for name in self._draft.elements[element].type.operations if not name.startswith("_")]

    def _check_call(self, node: ast.Call, name: str) -> None:
        """Refuse a call that no run could make."""
        if any(isinstance(one, ast.Starred) for one in node.args) or any(k.arg is None for k in node.keywords):
            return
        function = helper_function(self._draft.program, name)
        assert function is not None
        given: list[Any] = [*([] if is_static(self._draft.program, name) else [None]), *node.args]
        try:
            inspect.signature(function).bind(*given, **{k.arg: k.value for k in node.keywords if k.arg is not None})
        except TypeError as error:
            raise refuse(
                "MP128",
                f"this call does not fit the parameters of `{name}`",
                self._method.source,
                node,
                expected=f"{name}({ast.unparse(read_helper(self._draft.program, name).tree.args)})",
                found=str(error),
            ) from None

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        """Check an attribute; an operation of an element must be one that its container has."""
        if is_own(node.value, self._self) and node.value.attr in self._draft.elements:
            container = self._draft.elements[node.value.attr].type.container
            if node.attr == "popitem" or not hasattr(container, node.attr):
                raise self._refuse(
                    "MP131",
                    f"a {container.__name__} in state has no operation `{node.attr}`",
                    node,
                    ", ".join(sorted(self._operations(node.value.attr))),
                    "indexing, `in`, len() and iteration work where the container has them",
                )
        super().visit_Attribute(node)

    def _own(self, node: ast.Attribute) -> None:
        name, program = node.attr, self._draft.program
        read = isinstance(node.ctx, ast.Load)
        if read and is_entry(program, name) and name not in self._draft.elements:
            # It is checked where it is compiled itself.
            return
        if read and ((name in self._draft.elements and not self._of_class) or name == "__class__"):
            return
        member = inspect.getattr_static(program, name, None)
        if read and isinstance(member, property) and not hasattr(ProgramBase, name):
            self._check_property(member)
            return
        super()._own(node)

    def _check_property(self, member: property) -> None:
        """Check the code of a property of the program as that of a helper."""
        getter = member.fget
        if getter is not None and self._method.name != getter.__name__:
            found = UncutCheck(self._draft, _read_property(self._draft.program, getter), helper=True)
            self.helpers |= found.run()

    def check_decorators(self) -> None:
        """Refuse a decorator of a helper that changes what it does; a property is known."""
        if not isinstance(inspect.getattr_static(self._draft.program, self._method.name, None), property):
            super().check_decorators()


def _read_property(program: type[ProgramBase], getter: Callable[..., Any]) -> Method:
    """A property as if it were a helper."""
    holder = type(program.__name__, (), {getter.__name__: getter})
    return read_helper(holder, getter.__name__)


def _suspends(tree: ast.FunctionDef, node: ast.AST) -> bool:
    """Whether a `yield` belongs to a method itself, not to a function inside it."""

    def own(at: ast.AST) -> Iterator[ast.AST]:
        if isinstance(at, ast.FunctionDef | ast.Lambda):
            return
        yield at
        for child in ast.iter_child_nodes(at):
            yield from own(child)

    return any(one is node for statement in tree.body for one in own(statement))


# --- the compiled form


def sequence_entry(draft: Draft, method: Method) -> CompiledEntry:
    """An entry point as one task that runs its rows as they are written."""
    task = CompiledTask(
        name=f"{method.name}.0",
        entry=method.name,
        index=0,
        step=0,
        dispatch=Dispatch.SEQUENCE,
        key=(),
        collects="",
        inputs=method.parameters,
        accesses=_accesses(draft, method),
        function=row_function(draft.program, method.point, draft.elements),
        last=True,
    )
    aborts = not method.point.timer and ABORT in names_in_reach(draft.program, method.point.function)
    point = replace(method.point, relaxed=False)
    return CompiledEntry(point, (task,), reads_only=False, commutes=False, steps=1, aborts=aborts)


def _accesses(draft: Draft, method: Method) -> tuple[Access, ...]:
    """The elements that a method may touch, as far as names tell."""
    names = names_in_reach(draft.program, method.point.function) | ({method.name} if method.point.timer else set())
    return tuple(
        Access(name, Mode.LOCAL if element.partial else Mode.KEYED, writes=True)
        for name, element in draft.elements.items()
        if name in names
    )


def row_function(
    program: type[ProgramBase], point: EntryPoint, elements: Mapping[str, Element] | None = None
) -> Callable[..., None]:
    """The function that runs rows on a program whose state is at hand: `f(out, at_work, *columns)`.

    What it works on has the program, what ends a row, and what begins one where that is needed. Accesses to `elements`
    that are plain enough reach their entries directly.
    """
    name = point.name
    named = names_in_reach(program, point.function)
    asks = not AMBIENT.isdisjoint(named)
    bare = not point.parameters
    codes = {one: code for one in sorted(named) if (code := _helper_code(program, one, elements or {}))}
    if elements and (own := direct_code(as_function(point.function), elements)) is not None:
        codes[name] = own

    def run(out: list[Any], at_work: Any, *columns: list[Any]) -> None:
        append, own, ends, begins = out.append, at_work.program, at_work.ends, at_work.begins
        method = _calling(point, at_work.method(name, point.function, codes))
        if asks or begins is not None:
            method = _begun(name, method, begins, asks=asks)
        given = (repeat(own, len(columns[0])),) if bare else (repeat(own), *columns)
        only, end = ends[0] if len(ends) == 1 else ((), None)
        for reply in map(method, *given):
            if type(reply) not in _FLAT and reply is not Done:
                reply = copied(reply)  # noqa: PLW2901
            if end is None:
                for touched, end_row in ends:
                    if touched:
                        end_row()
            elif only:
                end()
            append(reply)

    return run


def as_function(member: Callable[..., Any]) -> types.FunctionType:
    """Return a method as it was written."""
    assert isinstance(member, types.FunctionType)
    return member


def _helper_code(program: type[ProgramBase], name: str, elements: Mapping[str, Element]) -> DirectCode | None:
    """The code of a method of the user's own with direct accesses, if calls of it run what is written, and no more."""
    member = inspect.getattr_static(program, name, None)
    if not elements or not isinstance(member, types.FunctionType) or not is_helper(program, name):
        return None
    return direct_code(member, elements) if helper_function(program, name) is member else None


def _begun(name: str, method: Callable[..., Any], begins: Any, *, asks: bool) -> Callable[..., Any]:
    """Return a method whose calls begin with what a row needs: its instance of partial state, its random numbers."""

    def call(own: Any, *values: Any) -> Any:
        if begins is not None:
            begins(name, values)
        if not asks:
            return method(own, *values)
        # Random numbers follow from what was given, whatever the row does to its copies.
        vars(own)[ROW] = Row(name, values)
        return method(own, *map(copied, values))

    return call


def _calling(point: EntryPoint, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that takes the columns of a row by their places, and gives its reply."""
    method = _taking(point, function) if point.timer else function
    parameters = list(inspect.signature(point.function).parameters.values())[1:]
    named = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    if not named and not point.yields:
        return method
    places = len(parameters) - len(named)

    def call(program: Any, *values: Any) -> Any:
        reply = method(program, *values[:places], **dict(zip(named, values[places:], strict=True)))
        return list(reply) if point.yields else reply

    return call


def _taking(point: EntryPoint, handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler as a method that takes its timer, or its windows, out of state first."""
    name, windows = point.name, point.windows

    def call(program: Any, key: Any, at: Any) -> Any:
        closed = vars(program)[name].fired(key, at)
        if windows and not closed:
            return Done
        return handler(program, key, closed if windows else at)

    return call


def with_sequence(draft: Draft, graph: Graph) -> Graph:
    """The graph of the other entry points, with those that run in sequence."""
    tasks = [sequence_entry(draft, method).tasks[0] for method in draft.whole]
    nodes = tuple(TaskNode(task.name, task.entry, 0, task.accesses, _lines(draft, task.entry)) for task in tasks)
    reason = "all rows of the epoch run in one task"
    feeds = [Edge(None, task.name, Dispatch.SEQUENCE, "", task.inputs, reason) for task in tasks]
    replies = [Edge(task.name, None, Dispatch.ANY, "", (), "the reply") for task in tasks]
    edges = [edge for pair in zip(feeds, replies, strict=True) for edge in pair]
    return replace(
        graph,
        tasks=(*graph.tasks, *nodes),
        edges=(*graph.edges, *edges),
        sequence=tuple((task.entry, draft.sequence[task.entry]) for task in tasks),
    )


def _lines(draft: Draft, entry: str) -> tuple[int, ...]:
    method = next(one for one in draft.whole if one.name == entry)
    first = method.tree.body[0].lineno
    return tuple(range(first, (method.tree.end_lineno or first) + 1))

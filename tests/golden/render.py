"""What each pass leaves, as text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from millpond.compiler.analysis.liveness import find_live
from millpond.compiler.analysis.objs import Obj
from millpond.compiler.analysis.owned import find_owned
from millpond.compiler.analysis.reaching import find_reaching
from millpond.compiler.analysis.values import find_values
from millpond.compiler.back.codegen import generate, task_tree
from millpond.compiler.back.key_code import key_tree
from millpond.compiler.compile import compile_program, draft_program
from millpond.compiler.draft import PARAMETER, UNBOUND, Definition, Draft, Method, Point
from millpond.compiler.explain import explain
from millpond.compiler.ir.cfg import build_cfgs
from millpond.compiler.ir.jumps import text, text_lines
from millpond.compiler.ir.normal_form import normalise
from millpond.compiler.ir.text import flat_lines
from millpond.compiler.plan.access import classify
from millpond.compiler.plan.dispatch import dispatch, locals_of
from millpond.compiler.plan.key_slice.key_sets import find_key_sets
from millpond.compiler.plan.split import split
from millpond.compiler.plan.stratify import stratify
from millpond.errors import MillpondError
from millpond.program import ProgramBase
from millpond.state.codec.typenames import type_text

Program = type[ProgramBase]


def head(node: ast.AST) -> str:
    """The first line of a node's source."""
    if isinstance(node, ast.ExceptHandler):
        return f"except {ast.unparse(node.type) if node.type else ''}".rstrip()
    return text(node).splitlines()[0]


def _methods(draft: Draft, lines: Callable[[Method], Iterator[str]]) -> str:
    return "\n".join(line for method in draft.methods for line in (f"entry {method.name}", *lines(method)))


def render_normalise(program: Program) -> str:
    return _methods(draft_program(program, normalise), lambda method: text_lines(method.body))


def render_cfg(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        for number, block in enumerate(method.cfg.blocks):
            yield f"block {number} -> {', '.join(map(str, block.successors)) or 'exit'}"
            yield from (f"  {head(point.node)}" for point in block.points)

    return _methods(draft_program(program, build_cfgs), lines)


def render_reaching(program: Program) -> str:
    def name(definition: Definition, points: tuple[Point, ...]) -> str:
        known = {PARAMETER: "parameter", UNBOUND: "unbound"}
        return known.get(definition.point) or head(points[definition.point].node)

    def lines(method: Method) -> Iterator[str]:
        reaching = method.reaching
        for point, before in zip(reaching.points, reaching.before, strict=True):
            yield head(point.node)
            for read in sorted(point.reads & before.keys() - {method.self_name}):
                yield f"  {read} from {' | '.join(name(d, reaching.points) for d in sorted(before[read]))}"

    return _methods(draft_program(program, find_reaching), lines)


def render_lower(program: Program) -> str:
    return _methods(draft_program(program, find_values), lambda method: flat_lines(method.values.flat))


def render_types(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        types = method.values.types
        for name in sorted({*method.parameters, *method.values.flat.definitions}):
            if "%" not in name:
                sure = "" if types.is_sure(name) else ", only said"
                yield f"{name}: {type_text(types.of(name))}{sure}"

    return _methods(draft_program(program, find_values), lines)


def told(obj: Obj) -> str:
    where = {"state": f"self.{obj.name}", "made": f"@{obj.at}", "unknown": f"anything of @{obj.at}"}
    hint = "" if obj.hint is None or obj.hint is Any else f" ({type_text(obj.hint)})"
    return where.get(obj.kind, obj.name) + hint


def render_points_to(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        yield from flat_lines(method.values.flat)
        points = method.values.points
        for name, objs in sorted(points.variables.items()):
            if "%" not in name and objs:
                shown = sorted(told(obj) + ("" if sure else "?") for obj, sure in objs.items())
                yield f"  {name} is {' | '.join(shown)}"
        for obj, inside in sorted(points.held.items(), key=lambda pair: told(pair[0])):
            if inside:
                yield f"  {told(obj)} holds {' | '.join(sorted(map(told, inside)))}"
        yield from (f"  changed: {one}" for one in sorted({told(obj) for obj in points.changed}))
        yield from (f"  stored in self.{store.element} at @{store.at}: {store.value}" for store in points.stores)

    return _methods(draft_program(program, find_values), lines)


def render_owned(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        yield from (f"  {element} is made a value again: {why}" for element, why in sorted(method.renews.items()))

    return _methods(draft_program(program, find_owned), lines)


def render_access(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        for stop in method.stops:
            yield f"{head(method.body[stop.top])}"
            for use in stop.uses:
                verb = "changes" if use.access.writes else "reads"
                key = f" under {use.identity}" if use.identity else ""
                yield f"  {verb} {use.access.state}, {use.access.mode.value}{key}: {', '.join(use.site.operations)}"
            if stop.value:
                yield f"  {stop.kind.value} {stop.value}"

    return _methods(draft_program(program, classify), lines)


def render_split(program: Program) -> str:
    draft = draft_program(program, split)
    return "\n".join(f"{c.entry}: {c.source or 'start'} -> {c.target}, {c.weight} ({c.why})" for c in draft.constraints)


def render_stratify(program: Program) -> str:
    return "\n".join(f"{name} {level}" for name, level in draft_program(program, stratify).levels.items())


def render_liveness(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        for live, statement in zip(method.live, method.body, strict=False):
            names = sorted(live & locals_of(method))
            yield f"{{{', '.join(names)}}} {head(statement)}"

    return _methods(draft_program(program, find_live), lines)


def render_dispatch(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        for piece in method.pieces:
            key = f" {piece.key}" if piece.key else ""
            yield f"task {piece.name} at step {piece.step}, {piece.dispatch.value}{key}, because: {piece.reason}"
            ways = [f"{method.pieces[way.target].name}{' for each turn' if way.fan_out else ''}" for way in piece.exits]
            yield f"  takes ({', '.join(piece.inputs)}) goes on to ({', '.join(ways)})"
            yield from (f"  | {line}" for top in piece.tops for line in text(method.body[top]).splitlines())

    return _methods(draft_program(program, dispatch), lines)


def render_codegen(program: Program) -> str:
    draft = draft_program(program, generate)
    trees = [
        task_tree(draft, method, piece, number)
        for method in draft.methods
        for number, piece in enumerate(method.pieces)
    ]
    return "\n".join(map(ast.unparse, trees))


def render_keysets(program: Program) -> str:
    def lines(method: Method) -> Iterator[str]:
        plan = method.keys
        if plan is None:
            return
        yield f"  because {method.gathered}"
        yield from (f"  {element}[{','.join(parameters)}]" for element, parameters in plan.columns)
        yield from (f"  all of {element}" for element in plan.singles)
        if plan.computed:
            tree, _, _ = key_tree(method, draft.elements)
            yield from (f"  {line}" for line in ast.unparse(ast.fix_missing_locations(tree)).splitlines())

    draft = draft_program(program, find_key_sets)
    return _methods(draft, lines)


def render_error(program: Program) -> str:
    try:
        compile_program(program)
    except MillpondError as error:
        return str(error)
    return "accepted"


RENDER: dict[str, Callable[[Program], str]] = {
    "normalise": render_normalise,
    "cfg": render_cfg,
    "reaching": render_reaching,
    "lower": render_lower,
    "types": render_types,
    "points_to": render_points_to,
    "owned": render_owned,
    "access": render_access,
    "split": render_split,
    "stratify": render_stratify,
    "liveness": render_liveness,
    "dispatch": render_dispatch,
    "keysets": render_keysets,
    "codegen": render_codegen,
    "error": render_error,
    "explain": explain,
    "mermaid": lambda program: explain(program, "mermaid"),
}

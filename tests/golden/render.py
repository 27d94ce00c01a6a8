"""What each pass leaves, as text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from millpond.compiler.plan.access import classify
from millpond.compiler.ir.cfg import build_cfgs
from millpond.compiler.back.codegen import generate, task_tree
from millpond.compiler.compile import compile_program, draft_program
from millpond.compiler.plan.dispatch import dispatch, locals_of
from millpond.compiler.draft import PARAMETER, UNBOUND, Definition, Draft, Method, Point
from millpond.compiler.explain import explain
from millpond.compiler.ir.jumps import text, text_lines
from millpond.compiler.back.key_code import key_tree
from millpond.compiler.plan.key_slice.key_sets import find_key_sets
from millpond.compiler.analysis.liveness import find_live
from millpond.compiler.ir.normal_form import normalise
from millpond.compiler.analysis.reaching import find_reaching
from millpond.compiler.plan.split import split
from millpond.compiler.plan.stratify import stratify
from millpond.errors import MillpondError
from millpond.program import ProgramBase

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

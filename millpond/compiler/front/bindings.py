"""What the variables of a method are bound to, and how it is taken from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from millpond.compiler.front.scope import MISSING, Scope

Step = str | int
"""From a value to a part of it: "item" is what a loop gives, a number the place in a tuple, "part" anything else."""


def bindings(node: ast.AST, scope: Scope) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    """The names that a node binds, what each is taken from, and how; None if that has no expression."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _targets(target, value, ())
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield from _targets(target, value, ())
        case ast.AugAssign(target=ast.Name(id=name) as target, op=operator, value=value):
            yield name, ast.BinOp(ast.Name(target.id, ast.Load()), operator, value), ()
        case ast.For(target=target, iter=walked) | ast.comprehension(target=target, iter=walked):
            yield from _walked(target, walked, scope)
        case ast.withitem(optional_vars=ast.expr() as target):
            yield from _targets(target, None, ())
        case ast.Match(subject=subject, cases=cases):
            for case in cases:
                yield from _captured(case.pattern, subject, ())
        case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name):
            yield name, None, ()


def _captured(
    pattern: ast.pattern, subject: ast.expr, steps: tuple[Step, ...]
) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    inner: Step = "item" if isinstance(pattern, ast.MatchSequence) else "part"
    match pattern:
        case ast.MatchAs(pattern=whole, name=name):
            if name is not None:
                yield name, subject, steps
            if whole is not None:
                yield from _captured(whole, subject, steps)
            return
        case ast.MatchOr(patterns=patterns):
            for one in patterns:
                yield from _captured(one, subject, steps)
            return
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, subject, (*steps, "part")
    for number, part in enumerate(part for part in ast.iter_child_nodes(pattern) if isinstance(part, ast.pattern)):
        starred = any(isinstance(other, ast.MatchStar) for other in ast.iter_child_nodes(pattern))
        yield from _captured(part, subject, (*steps, inner if starred or inner == "part" else number))


def _walked(target: ast.expr, walked: ast.expr, scope: Scope) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    meaning = scope.resolve(walked.func) if isinstance(walked, ast.Call) else MISSING
    match walked, target:
        case ast.Call(args=[source, *_]), ast.Tuple(elts=[first, second]) if meaning is enumerate:
            yield from _targets(first, ast.Constant(0), ())
            yield from _targets(second, source, ("item",))
        case ast.Call(args=sources), ast.Tuple(elts=parts) if meaning is zip and len(sources) == len(parts):
            for part, source in zip(parts, sources, strict=True):
                yield from _targets(part, source, ("item",))
        case ast.Call(args=[source]), _ if meaning is reversed:
            yield from _targets(target, source, ("item",))
        case _:
            yield from _targets(target, walked, ("item",))


def _targets(
    target: ast.expr, value: ast.AST | None, steps: tuple[Step, ...]
) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    match target:
        case ast.Name(id=name):
            yield name, value, steps
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            starred = any(isinstance(part, ast.Starred) for part in parts)
            for number, part in enumerate(parts):
                yield from _targets(part, None if starred else value, (*steps, number))
        case ast.Starred(value=inner):
            yield from _targets(inner, None, ())

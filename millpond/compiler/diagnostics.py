"""Compile errors: the rule that was broken, at the user's own line."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from millpond.compiler.draft import Source
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.errors import ProgramError, SourcePlace


def refuse(
    code: str,
    summary: str,
    source: Source,
    node: ast.AST,
    *,
    expected: str | None = None,
    found: str | None = None,
    hint: str | None = None,
    also: Iterable[SourcePlace] = (),
) -> ProgramError:
    """Build the error for a place in the user's source; `found` defaults to the source text itself."""
    shown = source.text(node) if found is None and isinstance(node, ast.expr) else found
    return ProgramError(code, summary, places=(source.place(node), *also), expected=expected, found=shown, hint=hint)


def bar(
    bars: Bars,
    code: str,
    summary: str,
    source: Source,
    node: ast.AST,
    *,
    expected: str | None = None,
    found: str | None = None,
    hint: str | None = None,
    also: Iterable[SourcePlace] = (),
) -> ObstacleError:
    """Build what keeps an entry point from a faster way, told as `refuse` tells an error."""
    told = refuse(code, summary, source, node, expected=expected, found=found, hint=hint, also=also)
    return ObstacleError(code, summary, bars=bars, places=told.places, expected=expected, found=told.found, hint=hint)

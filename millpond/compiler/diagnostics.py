"""Compile errors: the rule that was broken, at the user's own line."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from millpond.compiler.draft import Source
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
    if found is None and isinstance(node, ast.expr):
        found = source.text(node)
    return ProgramError(code, summary, places=(source.place(node), *also), expected=expected, found=found, hint=hint)

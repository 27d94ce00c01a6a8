"""Where a declaration or a signature of the user's is written, for errors that arise before anything is compiled."""

from __future__ import annotations

import ast
import inspect
import linecache
import types
from collections.abc import Callable
from typing import Any

from millpond.errors import SourcePlace


def signature_place(function: Callable[..., Any], parameter: str = "") -> tuple[SourcePlace, ...]:
    """Return the place of a method's `def`, or of one of its parameters; none if its source can't be read."""
    try:
        lines, first = inspect.getsourcelines(function)
        indented = lines[0][:1].isspace()
        module = ast.parse(("if 1:\n" if indented else "") + "".join(lines))
    except (OSError, TypeError, SyntaxError):
        return ()
    file = inspect.getfile(function)
    found = (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for tree in found:
        arguments = [part for part in ast.walk(tree.args) if isinstance(part, ast.arg) and part.arg == parameter]
        at: ast.arg | ast.stmt = arguments[0] if arguments else tree
        row = at.lineno - 1 - indented
        text = lines[row].rstrip("\n")
        width = (at.end_col_offset or 0) - at.col_offset if arguments else len(text) - at.col_offset
        return (SourcePlace(file, first + row, at.col_offset, text, max(1, width)),)
    return ()


def class_body_place(frame: types.FrameType | None) -> tuple[SourcePlace, ...]:
    """Return the line that a class body is at, if a frame is that of one."""
    if frame is None or not {"__module__", "__qualname__"} <= frame.f_locals.keys():
        return ()
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).rstrip("\n")
    column = len(text) - len(text.lstrip())
    return (SourcePlace(file, line, column, text, max(1, len(text) - column)),)

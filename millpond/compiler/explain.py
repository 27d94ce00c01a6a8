"""What the compiler made of a program, for people: tasks with their source, levels, edges and why there are cuts."""

from __future__ import annotations

from typing import Literal

from millpond.compiler.compile import draft_program
from millpond.compiler.draft import Draft, Method
from millpond.errors import ProgramError
from millpond.graph.draw import graph_mermaid
from millpond.graph.text import graph_text
from millpond.program import ProgramBase


def explain(program: type[ProgramBase], format: Literal["text", "mermaid"] = "text") -> str:  # noqa: A002
    """Show a compiled program as text or as a Mermaid flowchart."""
    draft = draft_program(program)
    assert draft.compiled is not None
    if format == "mermaid":
        return graph_mermaid(draft.compiled.graph)
    if format != "text":
        raise ProgramError("MP108", "no such format", expected="text, mermaid", found=str(format))
    notes = {name: _note(draft, name) for name in draft.compiled.entries}
    sources = {method.name: method for method in draft.methods}
    code = {task.name: _code(sources[task.entry], task.lines) for task in draft.compiled.graph.tasks}
    return graph_text(draft.compiled.graph, notes=notes, code=code)


def _note(draft: Draft, name: str) -> str:
    assert draft.compiled is not None
    entry = draft.compiled.entries[name]
    change = "read-only" if entry.reads_only else "changes state"
    order = "any order of rows gives the same" if entry.commutes else "the order of rows matters"
    return f"exact, {change}, {order}"


def _code(method: Method, lines: tuple[int, ...]) -> list[str]:
    source = method.source
    return [f"{line} | {source.lines[line - source.first].rstrip()}" for line in lines]

"""What the compiler made of a program, for people: tasks with their source, levels, edges and why there are cuts."""

from __future__ import annotations

import contextlib
import inspect
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final, Literal

from millpond.compiler.back.sequence import renewed
from millpond.compiler.compile import draft_program
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.draft import Method
from millpond.compiler.reorder import reorderings
from millpond.errors import ProgramError
from millpond.graph.render.dot import graph_dot
from millpond.graph.render.mermaid import graph_mermaid
from millpond.graph.render.page import Listing, graph_page
from millpond.graph.render.svg import entry_notes, graph_svg
from millpond.graph.text import graph_text
from millpond.program import ProgramBase
from millpond.state.timers import TimersType

Format = Literal["text", "mermaid", "dot", "svg", "html"]

FORMATS: Final = ("text", "mermaid", "dot", "svg", "html")


def explain(program: type[ProgramBase], format: Format = "text") -> str:  # noqa: A002
    """Show a compiled program: as text, for Mermaid or Graphviz, as a picture, or as a page with its source."""
    if format not in FORMATS:
        raise ProgramError("MP108", "explain() has no such format", expected=", ".join(FORMATS), found=str(format))
    draft = draft_program(program)
    assert draft.compiled is not None
    whole = (replace(method, renews=renewed(draft, method)) for method in draft.whole)
    methods = {method.name: method for method in (*draft.methods, *whole)}
    shown = _Explained(program, draft.compiled, {name: methods[name] for name in draft.compiled.entries}, draft.faster)
    match format:
        case "mermaid":
            return graph_mermaid(draft.compiled.graph)
        case "dot":
            return graph_dot(draft.compiled.graph)
        case "svg":
            return graph_svg(draft.compiled.graph, entry_notes(draft.compiled.graph, shown.notes()))
        case "html":
            return shown.page()
    return shown.text()


@dataclass(frozen=True, slots=True)
class _Explained:
    program: type[ProgramBase]
    compiled: CompiledProgram
    methods: Mapping[str, Method]
    faster: Mapping[str, str]

    def text(self) -> str:
        code = {task.name: self._code(task.entry, task.lines) for task in self.compiled.graph.tasks}
        return graph_text(self.compiled.graph, notes=self.notes(), hints=self._hints(), code=code)

    def page(self) -> str:
        graph = self.compiled.graph
        places = {
            task.name: [self.methods[task.entry].source.origin(line) for line in task.lines] for task in graph.tasks
        }
        return graph_page(graph, self._listings(places), places, notes=self.notes(), hints=self._hints())

    def notes(self) -> dict[str, str]:
        """What is known of each entry point, in a few words."""
        return {name: self._note(name) for name in self.compiled.entries}

    def _note(self, name: str) -> str:
        entry = self.compiled.entries[name]
        kind = "relaxed" if name in self.compiled.graph.relaxed else "exact"
        if self.compiled.graph.why_gathered(name):
            kind = "exact, gathered"
        if self.compiled.graph.why_sequence(name):
            kind = "exact, in sequence"
        shared = self._shared_with_relaxed(name)
        if shared:
            kind = f"exact but for what relaxed entry points do to {shared}"
        change = "read-only" if entry.reads_only else "changes state"
        order = "any order of rows gives the same" if entry.commutes else "the order of rows matters"
        aborts = ", may abort" if entry.aborts else ""
        return f"{kind}, {change}, {order}{aborts}{self._turn(name)}"

    def _turn(self, name: str) -> str:
        """When a handler is called that feeds others, or is fed by them."""
        element = self.compiled.elements.get(name)
        if element is None or not isinstance(element.type, TimersType):
            return ""
        place = element.type.place
        said = f", feeds {', '.join(f'self.{other}' for other in place.feeds)}" if place.feeds else ""
        if said or place.stage:
            said += f", level {place.rank + 1} of the handlers that feed each other"
        if place.strict:
            said += ", an epoch for each moment"
        seconds = place.lag_us // 1_000_000
        return said + (f", {seconds} s after the watermark, for late rows" if seconds else "")

    def _shared_with_relaxed(self, name: str) -> str:
        """The elements that an exact entry point shares with relaxed ones, which may change them at any step."""
        graph = self.compiled.graph
        if name in graph.relaxed:
            return ""
        changed = {
            access.state
            for task in graph.tasks
            if task.entry in graph.relaxed
            for access in task.accesses
            if access.writes
        }
        own = {access.state for task in graph.tasks if task.entry == name for access in task.accesses}
        return ", ".join(f"self.{element}" for element in sorted(own & changed))

    def _hints(self) -> dict[str, list[str]]:
        graph = self.compiled.graph
        return {
            name: [
                *(f"for a faster way: {self.faster[one]}" for one in (name,) if one in self.faster),
                *(() if graph.why_sequence(name) else reorderings(graph, name, method.source)),
                *map(_ends_as_values, method.renews.items()),
                *(f"the column {column} is copied when a row begins: it is stored" for column in method.own),
            ]
            for name, method in self.methods.items()
        }

    def _code(self, name: str, lines: tuple[int, ...]) -> list[str]:
        source = self.methods[name].source
        shown = []
        for line in lines:
            file, number = source.origin(line)
            where = "" if file == source.file else f"{PurePath(file).name}:"
            shown.append(f"{where}{number} | {source.lines[line - source.first].rstrip()}")
        return shown

    def _listings(self, places: Mapping[str, Sequence[tuple[str, int]]]) -> list[Listing]:
        """The whole class, then what was written elsewhere: inherited methods, and helpers of other modules."""
        found: list[Listing] = []
        methods: list[Any] = [method.point.function for method in self.methods.values()]
        for written in (self.program, *methods):
            with contextlib.suppress(OSError, TypeError):
                lines, first = inspect.getsourcelines(written)
                file = inspect.getfile(written)
                if not any(listing.holds(file, first) for listing in found):
                    found.append(Listing(file, first, tuple(line.rstrip() for line in lines)))
        for file, lines_of in _missing(places, found).items():
            first, last = min(lines_of), max(lines_of)
            text = [linecache.getline(file, line).rstrip() for line in range(first, last + 1)]
            found.append(Listing(file, first, tuple(text)))
        return found


def _ends_as_values(renewed: tuple[str, str]) -> str:
    element, why = renewed
    return f"what a row touches of self.{element} is encoded and decoded when it ends: {why}"


def _missing(places: Mapping[str, Sequence[tuple[str, int]]], found: Sequence[Listing]) -> dict[str, list[int]]:
    """The lines of tasks that no listing holds, by file."""
    missing: dict[str, list[int]] = {}
    for file, line in (place for lines in places.values() for place in lines):
        if not any(listing.holds(file, line) for listing in found):
            missing.setdefault(file, []).append(line)
    return missing

"""A graph beside the source it was made of, as one HTML page that needs nothing else.

Point at a task: its lines light up. At a line: its tasks. At an edge: what it carries, how, and why there is a cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePath

from millpond.graph.allocation import allocation_lines
from millpond.graph.cost import entries_of
from millpond.graph.model import Graph
from millpond.graph.render.looks import COLOURS, PAGE_STYLE, SCRIPT, STYLE
from millpond.graph.render.svg import Names, entry_notes, summary, svg_element
from millpond.graph.text import entry_facts


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of a source file from `first` on."""

    file: str
    first: int
    lines: tuple[str, ...]

    def holds(self, file: str, line: int) -> bool:
        """Return whether a line of a file is among these."""
        return file == self.file and self.first <= line < self.first + len(self.lines)


_REST = "Point at a task, a line, an edge or a state to see what belongs to it. Click to keep it, Escape to let go."

_LEGEND = "± changes, · reads; dashed: access to state; thick: a message for each turn; long dashes: back into a loop"


def graph_page(
    graph: Graph,
    listings: Sequence[Listing],
    places: Mapping[str, Sequence[tuple[str, int]]],
    *,
    notes: Mapping[str, str] | None = None,
    hints: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Make the page: `places` are the files and lines of each task; `notes` and `hints` are by entry point."""
    return "\n".join(_lines(graph, listings, _listed(places, listings), notes or {}, hints or {})) + "\n"


def _lines(
    graph: Graph,
    listings: Sequence[Listing],
    places: Mapping[str, list[tuple[int, int]]],
    notes: Mapping[str, str],
    hints: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    names = Names(graph, {task: [_line_id(*place) for place in found] for task, found in places.items()})
    title = escape(graph.program)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield (
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
    )
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title>\n<style>{COLOURS}{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>"
    yield f"<header><h1>{title}</h1><span>{escape(summary(graph))}</span></header>\n<main>"
    yield '<section id="source" aria-label="source">'
    for number, listing in enumerate(listings):
        yield from _listing(number, listing, graph, names, places)
    yield '</section>\n<section id="right">\n<div id="drawing">'
    yield svg_element(graph, names, entry_notes(graph, notes))
    yield "</div>"
    yield from _facts(graph, hints)
    yield f'<pre id="tell" aria-live="polite">{escape(_REST)}\n{escape(_LEGEND)}</pre>\n</section>\n</main>'
    yield f"<script>{SCRIPT}</script>\n</body>\n</html>"


def _listed(
    places: Mapping[str, Sequence[tuple[str, int]]], listings: Sequence[Listing]
) -> dict[str, list[tuple[int, int]]]:
    """Return the lines of each task, as listing and line; a line that is not listed is left out."""
    return {
        task: [
            (number, line)
            for file, line in found
            for number, listing in enumerate(listings)
            if listing.holds(file, line)
        ]
        for task, found in places.items()
    }


def _short(file: str) -> str:
    """Return a file's name and folder: a page may be shown to people who have other folders above."""
    return "/".join(PurePath(file).parts[-2:])


def _line_id(listing: int, line: int) -> str:
    return f"line-{listing}-{line}"


def _listing(
    number: int, listing: Listing, graph: Graph, names: Names, places: Mapping[str, list[tuple[int, int]]]
) -> Iterator[str]:
    yield f"<h2>{escape(_short(listing.file))}</h2>"
    for line, text in enumerate(listing.lines, listing.first):
        tasks = [task for task in graph.tasks if (number, line) in places.get(task.name, ())]
        steps = ",".join(str(step) for step in dict.fromkeys(task.step for task in tasks))
        hot = ""
        if tasks:
            about = "\n".join(f"line {line}: task {task.name}, step {task.step}" for task in tasks)
            on = " ".join(names.task(task.name) for task in tasks)
            tell = escape(about).replace("\n", "&#10;")
            hot = f' data-on="{escape(on)}" data-tell="{tell}" tabindex="0"'
        yield (
            f'<div class="line" id="{_line_id(number, line)}"{hot}><i>{line}</i>'
            f"<b>{'@' + steps if steps else ''}</b>{escape(text)}</div>"
        )


def _facts(graph: Graph, hints: Mapping[str, Sequence[str]]) -> Iterator[str]:
    loud = bool(graph.relaxed) or any(hints.values())
    yield f'<details id="facts"{" open" if loud else ""}>'
    yield "<summary>exact or relaxed, exchanges, hints, allocation</summary>"
    for entry in entries_of(graph):
        yield f"<h3>{escape(entry)}</h3>"
        for fact in entry_facts(graph, entry):
            kind = ' class="warn"' if fact.startswith("warning") else ""
            yield f"<p{kind}>{escape(fact.strip())}</p>"
        yield from (f'<p class="warn">hint: {escape(hint)}</p>' for hint in hints.get(entry, ()))
    first, *nodes = allocation_lines(graph)
    yield f"<h3>{escape(first)}</h3>"
    yield from (f"<p>{escape(line.strip())}</p>" for line in nodes)
    yield "</details>"

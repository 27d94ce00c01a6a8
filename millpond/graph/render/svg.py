"""A graph as an SVG picture of its own: no font, script or style from elsewhere; readable in light and dark.

>>> from millpond.graph.model import TaskNode
>>> picture = graph_svg(Graph("P", (), (TaskNode("go.0", "go", 0, (), ()),), ()))
>>> 'id="task-go.0"' in picture, picture.rstrip().endswith("</svg>")
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from millpond.graph.cost import cost_of, entries_of
from millpond.graph.model import Edge, Graph
from millpond.graph.render.layout import CHAR, LINE, PAD, Box, Line, Link, Picture, Point, lay_out
from millpond.graph.render.looks import COLOURS, STYLE
from millpond.graph.text import access_lines, count, dispatch_text

CORNER = 6.0


@dataclass(frozen=True, slots=True)
class Names:
    """The ids of a picture's parts, and what else lights up with each of them; `lines` are by task."""

    graph: Graph
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def task(self, name: str) -> str:
        """Return the id of a task."""
        return f"task-{name}"

    def state(self, name: str) -> str:
        """Return the id of a state."""
        return f"state-{name}"

    def edge(self, edge: Edge) -> str:
        """Return the id of an edge; edges between the same ends share one."""
        ends = [(other.source, other.target) for other in self.graph.edges]
        return f"edge-{ends.index((edge.source, edge.target))}"

    def link(self, task: str, state: str) -> str:
        """Return the id of an access."""
        return f"link-{task}-{state}"


def graph_svg(graph: Graph, notes: Mapping[str, str] | None = None) -> str:
    """Draw a graph as a picture that needs nothing but itself; what a part means is its tooltip."""
    body = svg_element(graph, Names(graph), notes or {}, style=COLOURS + STYLE, titles=True)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def svg_element(graph: Graph, names: Names, notes: Mapping[str, str], *, style: str = "", titles: bool = False) -> str:
    """Return the `<svg>` element of a graph; ids are those of `names`."""
    # A note is written in smaller letters beside the name of its entry point.
    longest = max((len(entry) + len(note) for entry, note in notes.items()), default=0)
    picture = lay_out(graph, width_min=CHAR * longest + 60)
    return "\n".join(_Drawing(graph, picture, names, notes, titles=titles).element(style))


class _Drawing:
    def __init__(self, graph: Graph, picture: Picture, names: Names, notes: Mapping[str, str], *, titles: bool) -> None:
        self._graph = graph
        self._picture = picture
        self._names = names
        self._notes = notes
        self._titles = titles

    def element(self, style: str) -> Iterator[str]:
        width, height = self._picture.width, self._picture.height
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" style="--width: {width:.0f}" role="img" '
            f'aria-label="graph of {_q(self._graph.program)}">'
        )
        if style:
            yield f"<style>{style}</style>"
        yield "<defs>"
        yield from map(_marker, ("arrow", "arrow-fan", "arrow-link", "arrow-lit"), (7, 4, 8, 6), _MARKER_COLOURS)
        yield "</defs>"
        if style:
            yield '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
        yield from self._ground()
        yield from (part for link in self._picture.links for part in self._link(link))
        yield from (part for line in self._picture.lines for part in self._edge(line))
        yield from (part for box in self._picture.boxes for part in self._box(box))
        yield from (part for line in self._picture.lines for part in self._label(line))
        yield "</svg>"

    def _ground(self) -> Iterator[str]:
        for lane in self._picture.lanes:
            width = self._picture.width - 12
            yield f'<rect class="lane" x="6" y="{lane.y:.1f}" width="{width:.1f}" height="{lane.height:.1f}" rx="8"/>'
            note = f'<tspan dx="10">{_q(self._notes[lane.entry])}</tspan>' if lane.entry in self._notes else ""
            yield f'<text class="entry" x="16" y="{lane.y + 17:.1f}">{_q(lane.entry)}{note}</text>'
        for column in self._picture.columns:
            yield f'<text class="column" x="{column.x + column.width / 2:.1f}" y="19">{column.title}</text>'

    def _open(self, kind: str, name: str, on: Sequence[str], tell: str) -> str:
        title = f"<title>{_q(tell)}</title>" if self._titles else ""
        hot = "" if self._titles else f' data-on="{_q(" ".join(on))}" data-tell="{_q(tell)}" tabindex="0"'
        return f'<g class="{kind}" id="{_q(name)}"{hot}>{title}'

    def _box(self, box: Box) -> Iterator[str]:
        match box.kind:
            case "task":
                yield from self._task(box)
            case "state":
                yield from self._state(box)
            case "feed" | "reply":
                yield f'<g class="{box.kind}">{_rect(box, 13)}'
                yield f'<text x="{box.x + box.width / 2:.1f}" y="{box.middle + 4:.1f}">{box.kind}</text></g>'

    def _task(self, box: Box) -> Iterator[str]:
        task = next(task for task in self._graph.tasks if task.name == box.name)
        links = [self._names.link(task.name, access.state) for access in task.accesses]
        states = [self._names.state(access.state) for access in task.accesses]
        edges = [self._names.edge(edge) for edge in self._graph.edges if task.name in (edge.source, edge.target)]
        on = [*self._names.lines.get(task.name, ()), *links, *states, *dict.fromkeys(edges)]
        lines = f"{'line' if len(task.lines) == 1 else 'lines'} {_ranges(task.lines)}" if task.lines else "no line"
        tell = "\n".join((f"task {task.name}, step {task.step}, {lines}", *access_lines(task)))
        yield self._open("task", self._names.task(box.name), on, tell) + _rect(box, 7)
        yield from _text(box)
        yield "</g>"

    def _state(self, box: Box) -> Iterator[str]:
        state = next(state for state in self._graph.states if state.name == box.name)
        users = [task.name for task in self._graph.tasks if state.name in {a.state for a in task.accesses}]
        on = [self._names.task(name) for name in users] + [self._names.link(name, state.name) for name in users]
        by = f" by {state.by}" if state.by else ""
        tell = (
            f"state {state.name}: {state.type}{by}, {state.distribution}, level {state.level}\n"
            f"met by {', '.join(users) or 'nobody'}"
        )
        yield self._open(f"state {state.distribution}", self._names.state(box.name), on, tell) + _cylinder(box)
        yield from _text(box, lower=8)
        yield "</g>"

    def _edge(self, line: Line) -> Iterator[str]:
        edge = line.edges[0]
        name = self._names.edge(edge)
        ends = [self._names.task(end) for end in (edge.source, edge.target) if end is not None]
        cut = list(self._names.lines.get(edge.target or "", ()))[:1] if edge.source else []
        kind = "edge" + (" back" if line.back else "") + (" fan" if any(e.fan_out for e in line.edges) else "")
        path = _rounded(line.points, 14) if line.back else _curve(line.points)
        yield self._open(
            kind,
            name,
            [*([f"{name}-label"] if any(line.label) else []), *ends, *cut],
            "\n".join(map(edge_text, line.edges)),
        )
        yield f'<path class="reach" d="{path}"/><path class="shaft" d="{path}"/></g>'

    def _label(self, line: Line) -> Iterator[str]:
        dispatch, carried = line.label
        if not any(line.label):
            return
        x, y = line.at.x, line.at.y
        yield f'<g class="label" id="{self._names.edge(line.edges[0])}-label" pointer-events="none">'
        yield f'<text x="{x:.1f}" y="{y - 6:.1f}">{_q(dispatch)}</text>'
        yield f'<text class="soft" x="{x:.1f}" y="{y + 15:.1f}">{_q(carried)}</text></g>'

    def _link(self, link: Link) -> Iterator[str]:
        kind = "link writes" if link.writes else "link"
        yield f'<g class="{kind}" id="{_q(self._names.link(link.task, link.state))}">'
        yield f'<path class="shaft" d="{_rounded(link.points, CORNER)}"/></g>'


_MARKER_COLOURS = ("var(--edge)", "var(--edge)", "var(--link)", "var(--lit)")


def edge_text(edge: Edge) -> str:
    """Say what an edge carries, how it is dispatched, and why there is a cut."""
    if edge.target is None:
        return f"the reply of {edge.source}"
    way = f"{edge.source or 'the feed'} to {edge.target}"
    each = ", one message for each turn of the loop" if edge.fan_out else ""
    carried = f"carries {', '.join(edge.carries) or 'nothing'}"
    why = "" if edge.source is None else f"\ncut because {edge.reason}"
    return f"{way}: {dispatch_text(edge)}{each}\n{carried}{why}"


def entry_notes(graph: Graph, notes: Mapping[str, str]) -> dict[str, str]:
    """Return a line for each entry point: what is known of it, and its exchanges."""
    found = {}
    for entry in entries_of(graph):
        known = [notes[entry]] if entry in notes else []
        found[entry] = "; ".join((*known, count(cost_of(graph, entry).exchanges, "exchange")))
    return found


def summary(graph: Graph) -> str:
    """Return a graph in a few words."""
    entries = len(entries_of(graph))
    points = "1 entry point" if entries == 1 else f"{entries} entry points"
    return f"{points}, {count(len(graph.tasks), 'task')}, {count(graph.steps, 'step')}"


def _q(text: str) -> str:
    return escape(text, quote=True).replace("\n", "&#10;")


def _ranges(lines: Sequence[int]) -> str:
    """Return lines as `3-5, 9`."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and spans[-1][1] == line - 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _marker(name: str, size: int, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" style="fill: {colour}"/></marker>'
    )


def _rect(box: Box, corner: int) -> str:
    size = f'width="{box.width:.1f}" height="{box.height:.1f}"'
    return f'<rect x="{box.x:.1f}" y="{box.y:.1f}" {size} rx="{corner}"/>'


def _text(box: Box, lower: int = 0) -> Iterator[str]:
    for number, line in enumerate(box.lines):
        kind = "name" if number == 0 else "soft"
        y = box.y + PAD + LINE * (number + 0.75) + lower
        yield f'<text class="{kind}" x="{box.x + PAD:.1f}" y="{y:.1f}">{_q(line)}</text>'


def _cylinder(box: Box) -> str:
    x, y, w, h, lid = box.x, box.y, box.width, box.height, 6
    arc = f"a{w / 2:.1f} {lid} 0 0 "
    body = f"M{x:.1f} {y + lid:.1f}{arc}1 {w:.1f} 0v{h - 2 * lid:.1f}{arc}1 {-w:.1f} 0z"
    return f'<path d="{body}"/><path class="lid" d="M{x:.1f} {y + lid:.1f}{arc}0 {w:.1f} 0"/>'


def _curve(points: Sequence[Point]) -> str:
    """Return a smooth line from left to right through points; between the two points of a bend it is straight."""
    parts = [f"M{points[0].x:.1f} {points[0].y:.1f}"]
    for number, (one, other) in enumerate(pairwise(points)):
        if number % 2:
            parts.append(f"L{other.x:.1f} {other.y:.1f}")
        else:
            half = (other.x - one.x) / 2
            parts.append(
                f"C{one.x + half:.1f} {one.y:.1f} {other.x - half:.1f} {other.y:.1f} {other.x:.1f} {other.y:.1f}"
            )
    return "".join(parts)


def _rounded(points: Sequence[Point], corner: float) -> str:
    """Return a line of straight parts with round corners."""
    parts = [f"M{points[0].x:.1f} {points[0].y:.1f}"]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _towards(at, before, corner), _towards(at, after, corner)
        parts.append(f"L{start.x:.1f} {start.y:.1f}Q{at.x:.1f} {at.y:.1f} {end.x:.1f} {end.y:.1f}")
    return "".join(parts) + f"L{points[-1].x:.1f} {points[-1].y:.1f}"


def _towards(at: Point, other: Point, corner: float) -> Point:
    dx, dy = other.x - at.x, other.y - at.y
    length = (dx * dx + dy * dy) ** 0.5
    share = min(corner, length / 2) / length if length else 0
    return Point(at.x + dx * share, at.y + dy * share)

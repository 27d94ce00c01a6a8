"""Where everything of a graph stands in a picture: steps are columns, entry points are lanes, state is at the bottom.

Within a lane, an edge that passes a column takes a place there, and places are ordered so that few edges cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from millpond.graph.cost import entries_of
from millpond.graph.model import Edge, Graph, StateNode, TaskNode
from millpond.graph.text import dispatch_text

# All in pixels of the picture at its natural size.
CHAR = 7.3
LINE = 16.0
PAD = 10.0
ROW_GAP = 20.0
LANE_HEAD = 24.0
LANE_GAP = 14.0
TRACK = 12.0
MARGIN = 16.0
HEAD = 30.0
PILL = 54.0
GAP_MIN = 64.0
LABEL_CHARS_MAX = 20
"""Longer labels are cut; the whole text is shown when the edge is pointed at."""
SWEEPS = 4
"""Ordering by barycentres settles within a few rounds on graphs of this size."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the picture."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with lines of text; `name` is of a task, a state, or the entry point of a feed or reply."""

    kind: str
    name: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def middle(self) -> float:
        """The height of its centre."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Line:
    """One or more edges between the same two ends, or an access; `label` is (dispatch, what is carried)."""

    edges: tuple[Edge, ...]
    points: tuple[Point, ...]
    label: tuple[str, str]
    at: Point
    back: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A task's access to a state, as corners of a line."""

    task: str
    state: str
    writes: bool
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """The band of an entry point."""

    entry: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """A step's place from left to right."""

    title: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph laid out."""

    width: float
    height: float
    columns: tuple[Column, ...]
    lanes: tuple[Lane, ...]
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    links: tuple[Link, ...]


@dataclass
class _Item:
    """Something that takes a place in a lane: a box, or a bend of an edge that passes by."""

    kind: str
    name: str
    column: int
    text: tuple[str, ...] = ()
    row: int = 0
    before: list[_Item] = field(default_factory=list)
    after: list[_Item] = field(default_factory=list)

    @property
    def width(self) -> float:
        if self.kind == "bend":
            return 0
        return PILL if self.kind in ("feed", "reply") else text_width(self.text)

    @property
    def height(self) -> float:
        if self.kind == "bend":
            # Room for the label of an edge that has one.
            return LINE if any(self.text) else 0
        return 26.0 if self.kind in ("feed", "reply") else LINE * len(self.text) + 2 * PAD


@dataclass
class _Way:
    """Edges with the same ends, and the items that they go through, both ends included."""

    edges: list[Edge]
    items: list[_Item]
    back: bool


@dataclass
class _Band:
    """A lane while it is laid out."""

    entry: str
    items: list[_Item]
    ways: list[_Way]

    @property
    def rows(self) -> list[float]:
        """The height of each row."""
        count = 1 + max(item.row for item in self.items)
        return [max(item.height for item in self.items if item.row == row) for row in range(count)]

    @property
    def backs(self) -> int:
        return sum(way.back for way in self.ways)


def text_width(lines: Iterable[str]) -> float:
    """Return how wide a box with these lines is; the first is the title."""
    return 2 * PAD + CHAR * max((len(line) for line in lines), default=0)


def shortened(text: str, limit: int = LABEL_CHARS_MAX) -> str:
    """Return a text that fits beside an edge."""
    return text if len(text) <= limit else text[: limit - 1].rstrip(" ,") + "…"


def lay_out(graph: Graph, width_min: float = 0) -> Picture:
    """Give every part of a graph its place, in a picture that is not narrower than `width_min`."""
    bands = [_band(graph, entry) for entry in entries_of(graph)]
    for band in bands:
        _order(band)
    return _Placing(graph, bands).picture(width_min)


def _task_lines(task: TaskNode) -> tuple[str, ...]:
    return (task.name, *(f"{'±' if access.writes else '·'} {access.state}" for access in task.accesses))


def state_lines(state: StateNode) -> tuple[str, ...]:
    """Return what is written on a state."""
    by = f" by {state.by}" if state.by else ""
    return state.name, shortened(state.type, 30), state.distribution + by


def _band(graph: Graph, entry: str) -> _Band:
    tasks = {task.name: task for task in graph.tasks if task.entry == entry}
    items = {task.name: _Item("task", task.name, task.step, _task_lines(task)) for task in tasks.values()}
    ends: dict[tuple[str | None, str | None], list[Edge]] = {}
    for edge in graph.edges:
        if edge.source in tasks or edge.target in tasks:
            ends.setdefault((edge.source, edge.target), []).append(edge)
    feed = _Item("feed", entry, -1, ("feed",))
    reply = _Item("reply", entry, graph.steps, ("reply",))
    band = _Band(entry, [feed, *items.values()], [])
    if any(target is None for _, target in ends):
        band.items.append(reply)
    for (source, target), edges in ends.items():
        first = feed if source is None else items[source]
        last = reply if target is None else items[target]
        back = last.column <= first.column
        between = () if back else range(first.column + 1, last.column)
        bends = [_Item("bend", "", column, _label(edges)) for column in between]
        band.items += bends
        way = _Way(edges, [first, *bends, last], back)
        band.ways.append(way)
        if not back:
            for one, other in pairwise(way.items):
                one.after.append(other)
                other.before.append(one)
    return band


def _order(band: _Band) -> None:
    """Give the items of each column their rows, so that neighbours in the next column are near."""
    columns: dict[int, list[_Item]] = {}
    for item in band.items:
        columns.setdefault(item.column, []).append(item)
    for column in columns.values():
        _number(column)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for key in sorted(columns, reverse=not forward):
            beside = {id(i): _mean(i.before if forward else i.after, i.row) for i in columns[key]}
            # Tasks before bends: a way straight through belongs to what happens, not to what passes by.
            columns[key].sort(key=lambda i: (beside[id(i)], i.kind == "bend", i.row))
            _number(columns[key])


def _number(column: list[_Item]) -> None:
    for row, item in enumerate(column):
        item.row = row


def _mean(items: Sequence[_Item], default: int) -> float:
    return sum(item.row for item in items) / len(items) if items else default


class _Placing:
    """Turns columns and rows into coordinates."""

    def __init__(self, graph: Graph, bands: list[_Band]) -> None:
        self._graph = graph
        self._bands = bands
        self._steps = range(-1, graph.steps + 1)
        self._tracks = self._find_tracks()
        self._columns = self._place_columns()
        self._boxes: dict[int, Box] = {}

    def _find_tracks(self) -> dict[int, list[str]]:
        """Return the states whose links run down at the right of each column."""
        tracks: dict[int, list[str]] = {step: [] for step in self._steps}
        for task in self._graph.tasks:
            tracks[task.step] += [access.state for access in task.accesses]
        for state in self._graph.states:
            tracks[state.level].append(state.name)
        return {step: list(dict.fromkeys(names)) for step, names in tracks.items()}

    def _place_columns(self) -> dict[int, Column]:
        columns: dict[int, Column] = {}
        x = MARGIN
        for step in self._steps:
            inside = [item.width for band in self._bands for item in band.items if item.column == step]
            states = [text_width(state_lines(state)) for state in self._graph.states if state.level == step]
            width = max([*inside, *states, 30.0])
            title = f"step {step}" if 0 <= step < self._graph.steps else ""
            columns[step] = Column(title, x, width)
            x += width + self._gap(step)
        return columns

    def _gap(self, step: int) -> float:
        """Return the space after a column: for its links, and for the labels of edges that end at the next one."""
        ways = [way for band in self._bands for way in band.ways if not way.back and way.items[-1].column == step + 1]
        labels = [max(map(len, _label(way.edges))) for way in ways if way.edges[0].target is not None]
        return max(GAP_MIN, CHAR * 0.92 * max(labels, default=0) + 20) + TRACK * len(self._tracks[step])

    def picture(self, width_min: float) -> Picture:
        """Place everything."""
        lanes, bottom = self._place_lanes()
        states, height = self._place_states(bottom)
        lines = [line for band, lane in zip(self._bands, lanes, strict=True) for line in self._lines(band, lane)]
        last = self._columns[self._graph.steps]
        return Picture(
            width=max(width_min, last.x + last.width + MARGIN),
            height=height,
            columns=tuple(column for column in self._columns.values() if column.title),
            lanes=tuple(lanes),
            boxes=(*self._boxes.values(), *states.values()),
            lines=tuple(lines),
            links=tuple(self._links(states, bottom)),
        )

    def _place_lanes(self) -> tuple[list[Lane], float]:
        lanes: list[Lane] = []
        y = HEAD
        for band in self._bands:
            rows = band.rows
            height = LANE_HEAD + ROW_GAP / 2 + sum(rows) + ROW_GAP * len(rows) + TRACK * 1.5 * band.backs
            height += TRACK if band.backs else 0
            for item in band.items:
                column = self._columns[item.column]
                above = sum(rows[: item.row]) + ROW_GAP * item.row
                centre = y + LANE_HEAD + ROW_GAP / 2 + above + rows[item.row] / 2
                width = item.width if item.kind != "task" else column.width
                self._boxes[id(item)] = Box(
                    item.kind, item.name, column.x, centre - item.height / 2, width, item.height, item.text
                )
            lanes.append(Lane(band.entry, y, height))
            y += height + LANE_GAP
        return lanes, y

    def _place_states(self, top: float) -> tuple[dict[str, Box], float]:
        """Stack the states of each level below the lanes, with room above for links that change columns."""
        top += LINE + TRACK * len(self._crossing())
        placed: dict[str, Box] = {}
        below = dict.fromkeys(self._steps, top)
        for state in self._graph.states:
            text = state_lines(state)
            column = self._columns[state.level]
            height = LINE * len(text) + 2 * PAD + 10
            placed[state.name] = Box("state", state.name, column.x, below[state.level], column.width, height, text)
            below[state.level] += height + 16
        return placed, max(below.values()) + MARGIN

    def _crossing(self) -> list[str]:
        """Return the states that are touched from another column than their own: relaxed entry points do that."""
        levels = {state.name: state.level for state in self._graph.states}
        visits = [(access.state, task.step) for task in self._graph.tasks for access in task.accesses]
        return list(dict.fromkeys(name for name, step in visits if levels[name] != step))

    def _track(self, step: int, state: str) -> float:
        column = self._columns[step]
        return column.x + column.width + TRACK * (1 + self._tracks[step].index(state))

    def _links(self, states: Mapping[str, Box], bottom: float) -> Iterator[Link]:
        crossing = self._crossing()
        levels = {state.name: state.level for state in self._graph.states}
        tasks = {box.name: box for box in self._boxes.values() if box.kind == "task"}
        for task in self._graph.tasks:
            box = tasks[task.name]
            for number, access in enumerate(task.accesses, 1):
                state = states[access.state]
                # At the height of the line that names it.
                start = Point(box.right, box.y + PAD + LINE * (number + 0.5))
                down = self._track(task.step, access.state)
                level = levels[access.state]
                corners = [start, Point(down, start.y)]
                if level != task.step:
                    bus = bottom + TRACK * crossing.index(access.state)
                    corners += [Point(down, bus), Point(self._track(level, access.state), bus)]
                corners += [Point(corners[-1].x, state.middle), Point(state.right, state.middle)]
                yield Link(task.name, access.state, access.writes, tuple(corners))

    def _lines(self, band: _Band, lane: Lane) -> Iterator[Line]:
        track = lane.y + lane.height - 2 * TRACK
        wide = TRACK
        for way in band.ways:
            label = _label(way.edges)
            start, end = self._port(band, way, out=True), self._port(band, way, out=False)
            if way.back:
                corners = (start, *_around(start, end, track, wide), end)
                yield Line(tuple(way.edges), corners, label, Point((start.x + end.x) / 2, track), back=True)
                track -= TRACK * 1.5
                wide += TRACK / 2
                continue
            bends = [self._boxes[id(item)] for item in way.items[1:-1]]
            through = [p for box in bends for p in self._across(box)]
            points = (start, *through, end)
            yield Line(tuple(way.edges), points, label, self._label_place(way, points), back=False)

    def _label_place(self, way: _Way, points: Sequence[Point]) -> Point:
        """Place a label where the edge passes a column, or else between its ends, clear of the links there."""
        if len(points) > 2:
            return Point((points[1].x + points[2].x) / 2, points[1].y)
        before = self._columns[way.items[0].column]
        left = before.x + before.width + TRACK * len(self._tracks[way.items[0].column])
        return Point((left + points[-1].x) / 2 - 4, (points[0].y + points[-1].y) / 2)

    def _across(self, bend: Box) -> tuple[Point, Point]:
        column = next(column for column in self._columns.values() if column.x == bend.x)
        return Point(bend.x - 6, bend.middle), Point(bend.x + column.width + 6, bend.middle)

    def _port(self, band: _Band, way: _Way, *, out: bool) -> Point:
        """Return where a line leaves or enters a box: the lines of one side are spread over it."""
        item = way.items[0 if out else -1]
        box = self._boxes[id(item)]
        side = [other for other in band.ways if other.items[0 if out else -1] is item]
        side.sort(key=lambda other: (other.back, other.items[1 if out else -2].row))
        y = box.y + box.height * (side.index(way) + 1) / (len(side) + 1)
        return Point(box.right if out else box.x, y)


def _around(start: Point, end: Point, track: float, wide: float) -> tuple[Point, ...]:
    """Return the corners of a line that goes back: out to the right, along below the boxes, and in from the left."""
    right, left = start.x + wide, end.x - wide
    return Point(right, start.y), Point(right, track), Point(left, track), Point(left, end.y)


def _label(edges: Sequence[Edge]) -> tuple[str, str]:
    if edges[0].target is None:
        return "", ""
    ways = dict.fromkeys(dispatch_text(edge) for edge in edges)
    carried = dict.fromkeys(name for edge in edges for name in edge.carries)
    each = "each turn " if any(edge.fan_out for edge in edges) else ""
    return shortened(each + " / ".join(ways)), shortened(", ".join(carried))

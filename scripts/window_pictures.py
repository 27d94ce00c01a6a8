"""Draws docs/pictures: slices and windows of docs/WINDOWS_TUTORIAL.md, as real runs cut and tell them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from millpond.windowing import (
    SharedWindows,
    Window,
    count_tumbling,
    session,
    sliding,
    sum_of,
    tumbling,
    varying,
)
from millpond.windowing.columns.vectorised import ColumnWindows
from millpond.windowing.discretiser import Cut
from millpond.windowing.kinds.kinds import Moment

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

RECORDS = [(1, 4), (3, 2), (4, 5), (7, 1), (8, 3), (11, 6), (12, 2), (19, 4), (20, 1), (21, 3), (23, 5)]
"""Times in seconds, and values."""
END = 32

BATCHES = [[(2, 4), (7, 1)], [(13, 2), (6, 3)], [(9, 5), (18, 1)], [(27, 2)], [(19, 6), (3, 8)]]
"""Rows as they arrive: times of events, and values."""
DISORDER, LATENESS = 3, 10

WIDTH, LEFT, RIGHT = 760, 164, 24
BAR, ROW, GAP = 22, 26, 16
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"
SLICES = ("#b9d7ea", "#d7ebba")
WINDOWS = "#f3d7b0"
DOT, MISSED = "#0b6e99", "#b3261e"


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time with a text on it."""

    begin: float
    end: float
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a picture: its name, bars that are stacked where they overlap, dots with texts, marks, a note."""

    name: str
    bars: list[Bar] = field(default_factory=list)
    dots: list[tuple[float, str, str]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    note: str = ""

    def stacked(self) -> list[list[Bar]]:
        """The bars in as many rows as they need."""
        rows: list[list[Bar]] = []
        for bar in self.bars:
            for row in rows:
                if row[-1].end <= bar.begin:
                    row.append(bar)
                    break
            else:
                rows.append([bar])
        return rows

    @property
    def height(self) -> int:
        """How much room it takes."""
        return (
            max(ROW * len(self.stacked()), 34 if self.dots else 0)
            + (12 if self.marks else 0)
            + (18 if self.note else 0)
            + GAP
        )


def draw(title: str, lanes: Iterable[Lane], until: int) -> str:
    """A picture of lanes over one axis of time."""
    lanes = list(lanes)
    top = 44
    height = top + sum(lane.height for lane in lanes) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        ' font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
        text(12, 24, title, size=15, anchor="start"),
    ]
    for second in range(0, until + 1, 2):
        bottom = height - 34
        lines.append(
            f'<line x1="{at(second, until)}" x2="{at(second, until)}" y1="{top - 8}" y2="{bottom}" stroke="{GRID}"/>'
        )
        if second % 4 == 0:
            lines.append(text(at(second, until), bottom + 18, f"{second} s"))
    y = top
    for lane in lanes:
        lines += lane_lines(lane, y, until)
        y += lane.height
    return "\n".join([*lines, "</svg>"]) + "\n"


def lane_lines(lane: Lane, top: int, until: int) -> list[str]:
    """One lane, from a height on."""
    lines = [text(12, top + 16, lane.name, anchor="start")]
    for number, row in enumerate(lane.stacked()):
        for bar in row:
            x, y = at(bar.begin, until), top + number * ROW
            width = round(at(bar.end, until) - x - 2, 1)
            lines.append(f'<rect x="{x}" y="{y}" width="{width}" height="{BAR}" rx="3" fill="{bar.colour}"/>')
            lines.append(text(round(x + width / 2, 1), y + 16, bar.text))
    for moment, label in lane.marks:
        x = at(moment, until)
        lines.append(
            f'<line x1="{x}" x2="{x}" y1="{top - 4}" y2="{top + 38}" stroke="{MISSED}" stroke-dasharray="4 3"/>'
        )
        lines.append(text(x + 4, top + 38, label, anchor="start", size=11, colour=MISSED))
    for moment, label, colour in lane.dots:
        lines.append(f'<circle cx="{at(moment, until)}" cy="{top + 20}" r="5" fill="{colour}"/>')
        lines.append(text(at(moment, until), top + 10, label, size=12))
    if lane.note:
        lines.append(text(LEFT, top + lane.height - GAP - 3, lane.note, anchor="start", size=12))
    return lines


def at(second: float, until: int) -> float:
    """Where a second lies."""
    return round(LEFT + second / until * (WIDTH - LEFT - RIGHT), 1)


def text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "middle", colour: str = INK) -> str:
    """Words at a place."""
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def observed(queries: Mapping[str, Window]) -> tuple[list[Bar], dict[str, list[Bar]]]:
    """Run the records through windows: the slices as they were cut, and the windows of each query as they were told."""
    aggregate = sum_of("v")
    cuts: list[int] = []

    def cutting(cut: Cut, moment: Moment) -> bool:
        if cut.begun:
            cuts.append(moment.position)
        return bool(cut.begun)

    windows = SharedWindows(aggregate, queries, cutting=cutting)
    told: dict[str, list[Bar]] = {name: [] for name in queries}
    results = [result for time, value in RECORDS for result in windows.add({"v": value}, time)]
    for result in [*results, *windows.advance(END)]:
        begin, end = result.bounds
        if not queries[result.query].needs_time:
            begin, end = RECORDS[begin][0], RECORDS[end][0]
        told[result.query].append(Bar(max(begin, 0), end, f"{result.value}", WINDOWS))
    slices = []
    for number, (first, last) in enumerate(zip(cuts, [*cuts[1:], len(RECORDS)], strict=True)):
        partial: Any = aggregate.identity
        for _, value in RECORDS[first:last]:
            partial = aggregate.combine(partial, aggregate.lift({"v": value}))
        ends = RECORDS[last][0] if last < len(RECORDS) else RECORDS[-1][0] + 1
        slices.append(Bar(RECORDS[first][0], ends, f"{partial}", SLICES[number % 2]))
    return slices, told


def records() -> Lane:
    """The records as a lane."""
    return Lane("records", dots=[(time, str(value), DOT) for time, value in RECORDS])


def slices_picture() -> str:
    """One sliding window and its slices."""
    slices, told = observed({"windows": sliding("8 us", "4 us")})
    lanes = [records(), Lane("slices", bars=slices), Lane("8 s, every 4 s", bars=told["windows"])]
    return draw("A slice begins where a window begins: every record is added once", lanes, END)


def sharing_picture() -> str:
    """Three queries over the same slices."""
    queries: dict[str, Window] = {
        "8 s, every 4 s": sliding("8 us", "4 us"),
        "every 6 s": tumbling("6 us"),
        "session, gap 5 s": session("5 us"),
    }
    slices, told = observed(queries)
    lanes = [records(), Lane("slices of all", bars=slices), *(Lane(name, bars=bars) for name, bars in told.items())]
    return draw("Three queries share their slices", lanes, END)


def kinds_picture() -> str:
    """The kinds of windows over the same records, each by itself."""
    kinds: dict[str, Window] = {
        "tumbling, 6 s": tumbling("6 us"),
        "sliding, 8 s by 4 s": sliding("8 us", "4 us"),
        "session, gap 5 s": session("5 us"),
        "count, 4 records": count_tumbling(4),
        "4 s above 3, else 8 s": varying(lambda record: ("4 us", "4 us") if record["v"] > 3 else ("8 us", "8 us")),
    }
    lanes = [records(), *(Lane(name, bars=observed({name: window})[1][name]) for name, window in kinds.items())]
    return draw("Kinds of windows, with the sums of their records", lanes, END)


def lateness_picture() -> str:
    """Rows out of order, a watermark behind them, and what each close tells."""
    windows = ColumnWindows(tumbling("10 us"), {"sum": sum_of("v")}, lateness=f"{LATENESS} us")
    lanes, latest = [], 0
    for number, batch in enumerate(BATCHES, 1):
        times, values = [time for time, _ in batch], [value for _, value in batch]
        late = set(windows.add([0] * len(batch), times, {"v": values}).rows.tolist())
        latest = max(latest, *times)
        closed = windows.close(latest - DISORDER)
        said = [f"{words['change']} {span(words)} = {words['sum']}" for words in closed.changes().to_pylist()]
        missed = [f"the row of second {times[row]} is too late" for row in sorted(late)]
        lanes.append(
            Lane(
                f"batch {number}",
                dots=[(time, str(value), MISSED if row in late else DOT) for row, (time, value) in enumerate(batch)],
                marks=[(latest - DISORDER, "watermark")],
                note="; ".join([*said, *missed]) or "nothing to tell",
            )
        )
    return draw(f"Windows of 10 s, disorder {DISORDER} s, lateness {LATENESS} s", lanes, END)


def span(words: Mapping[str, Any]) -> str:
    """The bounds of a window; a second of the picture is a microsecond of the run."""
    return f"{words['window_begin'].microsecond} to {words['window_end'].microsecond} s"


PICTURES = {
    "window_slices.svg": slices_picture,
    "window_sharing.svg": sharing_picture,
    "window_kinds.svg": kinds_picture,
    "window_lateness.svg": lateness_picture,
}


def main() -> int:
    """Write all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        (FOLDER / name).write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Line charts as SVG, as plain as a page needs them: a line and its name per series, heights by powers or evenly."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 650, 360
LEFT, RIGHT, TOP, BOTTOM = 100, 150, 44, 48
FOLDER = "out/charts"
MARKS_MAX = 16
COLOURS = ("#0b6e99", "#c2571a", "#3d7a3d", "#8a4f9e", "#666666")

EVEN_STEPS = 6
"""About so many marks divide an even scale."""

Points = Sequence[tuple[float, float]]

Scale = tuple[Callable[[float], float], list[float]]
"""Which part of the height a number has, and the numbers that are marked."""


def add_charts(parser: argparse.ArgumentParser) -> None:
    """Declare where charts go."""
    parser.add_argument("--svg", default=FOLDER, help="folder for the charts, '' for none (default: %(default)s)")


def write_charts(folder: str, charts: Mapping[str, str]) -> list[str]:
    """Write charts into a folder; their paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, chart in charts.items():
        (Path(folder) / name).write_text(chart, encoding="utf-8")
    return [str(Path(folder) / name) for name in charts]


def line_chart(
    title: str,
    across: str,
    up: str,
    series: Mapping[str, Points],
    *,
    even: bool = False,
    named: Mapping[float, str] | None = None,
) -> str:
    """Draw series of points; heights are above zero, and logarithmic unless they shall be `even`.

    Numbers across may be `named`, and are marked then.
    """
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points if y > 0]
    part_of, heights = _even(max(ys)) if even else _logarithmic(ys)
    widest = max(1, *xs)

    def at(x: float, y: float) -> tuple[float, float]:
        across_part = LEFT + x / widest * (WIDTH - LEFT - RIGHT)
        return round(across_part, 1), round(HEIGHT - BOTTOM - part_of(y) * (HEIGHT - TOP - BOTTOM), 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})"',
        f' text-anchor="middle">{escape(up)}</text>',
    ]
    for height in heights:
        _, y = at(0, height)
        marked = f"{height:,.10g}" if even else f"{height:,.0f}"
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#dddddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{marked}</text>')
    below = HEIGHT - BOTTOM + 16
    marks = [mark for mark in _even(widest)[1] if mark <= widest] if even else _marks(xs)
    words = named or {mark: f"{mark:,.10g}" for mark in marks}
    lines += [
        f'<text x="{at(x, heights[0])[0]}" y="{below}" text-anchor="middle">{escape(word)}</text>'
        for x, word in words.items()
    ]
    ends = _apart(sorted((at(*points[-1])[1], name) for name, points in series.items()))
    for colour, (name, points) in zip(COLOURS, series.items(), strict=False):
        path = " ".join(f"{x},{y}" for x, y in (at(*point) for point in points))
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in (at(*point) for point in points)]
        lines.append(f'<text x="{WIDTH - RIGHT + 8}" y="{ends[name] + 4}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _logarithmic(ys: Sequence[float]) -> Scale:
    low = math.floor(math.log10(min(ys)))
    high = max(low + 1, *(math.ceil(math.log10(y)) for y in ys))
    powers = [10.0**power for power in range(low, high + 1)]
    return lambda y: (math.log10(max(y, 10**low)) - low) / (high - low), powers


def _even(highest: float) -> Scale:
    """From zero to a round number that is not below the highest."""
    power = 10.0 ** math.floor(math.log10(highest / EVEN_STEPS))
    step = next(round_step * power for round_step in (1, 2, 5, 10) if round_step * power * EVEN_STEPS >= highest)
    count = math.ceil(highest / step)
    return lambda y: y / (count * step), [round(number * step, 10) for number in range(count + 1)]


def _marks(xs: Sequence[float]) -> list[float]:
    marks = sorted(set(xs))
    return marks[:: -(-len(marks) // MARKS_MAX)]


def _apart(ends: list[tuple[float, str]]) -> dict[str, float]:
    """Heights for the names, near the ends of their lines, so that none covers another."""
    placed: dict[str, float] = {}
    last = -math.inf
    for y, name in ends:
        last = max(y, last + 14)
        placed[name] = last
    return placed

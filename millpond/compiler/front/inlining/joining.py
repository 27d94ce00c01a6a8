"""One source out of two, so that a method can show the lines of helpers that were written out in it."""

from __future__ import annotations

import linecache
from dataclasses import replace

from millpond.compiler.draft import Source


def join_sources(source: Source, other: Source) -> tuple[Source, int]:
    """A source that also knows the lines of `other`, and what to add to the line numbers of nodes from there."""
    end = source.further[0][0] if source.further else source.first + len(source.lines)
    own, added = source.lines[: end - source.first], source.lines[end - source.first :]
    lines = dict(enumerate((line.rstrip("\n") for line in linecache.getlines(source.file)), 1))
    lines |= dict(enumerate(own, source.first))
    if other.file == source.file and (not source.further or other.first + len(other.lines) <= end):
        lines |= dict(enumerate(other.lines, other.first))
        first = min(source.first, other.first)
        last = max(end, other.first + len(other.lines))
        return replace(source, first=first, lines=_range(lines, first, last) + added), 0
    for here, file, there in source.further:
        if (file, there) == (other.file, other.first) and _lines_at(source, here, len(other.lines)) == other.lines:
            return source, here - there
    # After the end of the file, where no line of it can be meant.
    end = end if source.further else max(end, *lines) + 1
    here = end + len(added)
    further = (*source.further, (here, other.file, other.first))
    joined = _range(lines, source.first, end) + added + other.lines
    return replace(source, lines=joined, further=further), here - other.first


def _lines_at(source: Source, line: int, count: int) -> tuple[str, ...]:
    return source.lines[line - source.first : line - source.first + count]


def _range(lines: dict[int, str], first: int, end: int) -> tuple[str, ...]:
    return tuple(lines.get(number, "") for number in range(first, end))

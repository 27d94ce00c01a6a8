"""What changed between two epochs: lines for people, and JSON lines for programs, as they are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from millpond.checkpoint.read.entries import Change, Kind, diff, sides
from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.read.plain import as_json, as_text, json_text, printable
from millpond.cli.stateshow import Begin

VALUE_CHARS_MAX = 400
"""Longer values are cut for people; `--json` shows them whole."""

_SIGNS = {Kind.ADDED: ("+", "green"), Kind.CHANGED: ("~", "yellow"), Kind.REMOVED: ("-", "red")}


def print_lines(history: History, before: Point, after: Point, names: Iterable[str]) -> int:
    """Print each change as a line of JSON, and the totals as the last line; return how many there are."""
    counts: Counter[Kind] = Counter()
    for name in names:
        reader = sides(history, before, after, name)[1]
        for change in diff(history, before, after, name):
            counts[change.kind] += 1
            line: dict[str, Any] = {"element": name, "change": change.kind.value}
            line |= {"instance": change.instance} if reader.partial else {}
            line |= {"key": as_json(change.key)} if reader.has_keys else {}
            line |= {"old": as_json(change.old)} if change.kind is not Kind.ADDED and reader.has_values else {}
            line |= {"new": as_json(change.new)} if change.kind is not Kind.REMOVED and reader.has_values else {}
            typer.echo(json_text(line))
    typer.echo(json_text({"from": before.epoch, "to": after.epoch, **{kind.value: counts[kind] for kind in Kind}}))
    return counts.total()


def print_changes(
    console: Console, history: History, before: Point, after: Point, names: Iterable[str], begin: Begin
) -> int:
    """Print each change as a line, under the name of its element, and the totals; return how many there are."""
    counts: Counter[Kind] = Counter()
    files = {state_file.file.name: state_file.file.size_bytes for state_file in (*before.files(), *after.files())}
    for name in names:
        reader = sides(history, before, after, name)[1]
        fresh = True
        for change in diff(history, before, after, name, begin(sum(files.values()))):
            if fresh:
                console.print(Text(printable(str(reader.schema)), style="bold"), soft_wrap=True)
                fresh = False
            counts[change.kind] += 1
            sign, style = _SIGNS[change.kind]
            words = _words(change, has_keys=reader.has_keys, has_values=reader.has_values)
            console.print(Text(f"  {sign} {words}", style=style), soft_wrap=True)
    totals = ", ".join(f"{counts[kind]:,} {kind.value}" for kind in Kind)
    console.print(Text(f"epoch {before.epoch} to {after.epoch}: {totals}"), soft_wrap=True)
    return counts.total()


def _words(change: Change, *, has_keys: bool, has_values: bool) -> str:
    key = _cut(change.key) if has_keys else ""
    where = key if change.instance is None else f"{key} in instance {change.instance}".strip()
    if not has_values:
        return where
    old, new = _cut(change.old), _cut(change.new)
    text = {Kind.ADDED: new, Kind.CHANGED: f"{old} -> {new}", Kind.REMOVED: old}[change.kind]
    return f"{where}: {text}" if where else text


def _cut(value: object) -> str:
    text = as_text(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."

"""Rows of the examples whose methods may refuse a row with `self.abort(reason)`, run as plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.rows import Row
from millpond import Aborted, Program


def play(program: Program, rows: Sequence[Row]) -> tuple[list[Any], dict[int, str]]:
    """Run the class row by row; returns replies, None for a refused row, and the reasons by the number of the row."""
    replies: list[Any] = []
    refused: dict[int, str] = {}
    for number, (name, arguments) in enumerate(rows):
        try:
            replies.append(getattr(program, name)(*arguments))
        except Aborted as aborted:
            replies.append(None)
            refused[number] = aborted.reason
    return replies, refused

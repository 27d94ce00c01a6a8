"""How commands speak to the terminal: coded errors, and progress that only a person sees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from millpond.errors import MillpondError


@contextmanager
def errors_shown(*, json: bool = False, clean: Callable[[str], str] = str) -> Iterator[None]:
    """Print a coded error without a traceback, and exit with 1; `clean` makes a line fit for a terminal."""
    try:
        yield
    except MillpondError as error:
        if json:
            print_json({"ok": False, "error": error_fields(error)})
            raise typer.Exit(1) from None
        head, *rest = map(clean, str(error).split("\n"))
        # Text, not markup: a program's own brackets must survive. Soft wrap: carets must stay under their line.
        console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        console.print(Text(head, style="bold red"))
        if rest:
            console.print(Text("\n".join(rest)))
        raise typer.Exit(1) from None


def error_fields(error: MillpondError) -> dict[str, str | None]:
    """A coded error as JSON shows it."""
    named = {"code": error.code, "summary": error.summary, "expected": error.expected, "found": error.found}
    return {**named, "hint": error.hint}


def print_json(report: object) -> None:
    """Print one JSON object, for programs."""
    typer.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())


@contextmanager
def progress(what: str, *, shown: bool) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """A bar on standard error if that is a terminal: it is told the bytes there are, then those of each file."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(what, total=None)

        def begin(total_bytes: int) -> Callable[[int], None]:
            bar.update(task, total=total_bytes)
            return lambda size_bytes: bar.advance(task, size_bytes)

        yield begin

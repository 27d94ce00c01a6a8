"""How commands speak to the terminal: coded errors, and progress that only a person sees.

>>> error_fields(SetupError("MP710", "this does not name a class", found="recs"))
{'code': 'MP710', 'summary': 'this does not name a class', 'expected': None, 'found': 'recs', 'hint': None}
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from typer.core import TyperGroup

from millpond.errors import MillpondError, SetupError
from millpond.state.codec.shown import ascii_surrogates

_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""What every error about the words of a command line is; Typer has its own, under no public name."""


class Commands(TyperGroup):
    """Commands that report a command line that can't be understood as they report anything else."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with --json, what is wrong with its words is JSON too, and the exit code is 2 as ever."""
        words = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        if "--" in words:
            words = words[: words.index("--")]
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            if "--json" not in words:
                raise
            print_json({"ok": False, "error": error_fields(_senseless(error.format_message()))})
            raise typer.Exit(error.exit_code) from None


def _senseless(found: str) -> SetupError:
    return SetupError("MP721", "the command line can't be understood", found=found, hint="--help says what there is")


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
    """Return a coded error as JSON shows it."""
    named = {"code": error.code, "summary": error.summary, "expected": error.expected, "found": error.found}
    return {**named, "hint": error.hint}


def print_json(report: object) -> None:
    """Print one JSON object, for programs."""
    typer.echo(json_of(report))


def json_of(report: object) -> str:
    """Return a report as JSON; names of files that are no text are escaped in it, as on the terminal."""
    try:
        data = msgspec.json.encode(report)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_escaped(msgspec.to_builtins(report)))
    return msgspec.json.format(data, indent=2).decode()


def _escaped(plain: Any) -> Any:
    if isinstance(plain, str):
        return ascii_surrogates(plain)
    if isinstance(plain, dict):
        return {_escaped(key): _escaped(value) for key, value in plain.items()}
    return list(map(_escaped, plain)) if isinstance(plain, list | tuple) else plain


@contextmanager
def output_checked() -> Iterator[None]:
    """Tell in short that standard output can't be written, and exit with 1; what a closed pipe does is left alone."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno == errno.EPIPE:
            raise
        # What is still to be written would fail once more when the process ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        typer.echo(str(_no_output(error)), err=True)
        sys.exit(1)


def _no_output(error: OSError) -> SetupError:
    return SetupError(
        "MP718",
        "the output can't be written",
        expected="room where standard output goes",
        found=str(error.strerror or error),
        hint="send it elsewhere",
    )


@contextmanager
def progress(what: str, *, shown: bool) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Show a bar on standard error if that is a terminal: it is given the bytes there are, then those of each file."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(what, total=None)

        def begin(total_bytes: int) -> Callable[[int], None]:
            bar.update(task, total=total_bytes)
            return lambda size_bytes: bar.advance(task, size_bytes)

        yield begin

"""The commands, their options, and how their errors reach the terminal."""

from __future__ import annotations

from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from millpond.cli import doctor as doctors
from millpond.cli.serving import serve
from millpond.cli.state import state
from millpond.cli.terminal import Commands, errors_shown, output_checked
from millpond.state.codec.shown import ascii_surrogates

app = typer.Typer(
    name="millpond", cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.add_typer(state)
app.command()(serve)


class Format(Enum):
    """How `explain` shows a program."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    HTML = "html"


class CheckFormat(Enum):
    """How `check` reports."""

    TEXT = "text"
    JSON = "json"


def main() -> None:
    """Run the command that the arguments name."""
    with output_checked():
        app()


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"millpond {version('millpond')}")
        except PackageNotFoundError:
            typer.echo("millpond (not installed: run from its source)")
        raise typer.Exit


@app.callback()
def millpond(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Write a plain Python class with mutable state; run it on Spark, exactly once."""


@app.command()
def explain(
    target: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="As in examples.recommender:Recommender.")],
    *,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.TEXT,  # noqa: A002 - the option's name
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead.")
    ] = None,
) -> None:
    """Show the graph that a program compiles to: its tasks, its state, and where it is cut.

    Text tells most; mermaid and dot are for other tools; svg is a picture; html is a page with the source beside the
    picture: point at a task to see its lines, at an edge to see what it carries and why there is a cut.
    """
    # Late, so that `doctor` works where the rest can't be imported.
    from millpond.cli.explain import load_program, save

    with errors_shown():
        shown = load_program(target).explain(format=format.value)
        if output is None:
            typer.echo(shown)
        else:
            save(output, shown)


@app.command()
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Python files, or folders of them.")],
    *,
    no_import: Annotated[
        bool, typer.Option("--no-import", help="Run nothing of the files: for code that is not trusted.")
    ] = False,
    format: Annotated[CheckFormat, typer.Option(help="What to print.")] = CheckFormat.TEXT,  # noqa: A002 - likewise
) -> None:
    """Compile every program in some files, without Spark, and print all errors at once.

    Exits with 0 if all programs compile, with 1 if some are refused, with 2 if a file can't be read or imported. In a
    folder, files that do not import millpond are left out.

    With --no-import the files are only parsed: state, hints and literals are read from the syntax tree, and the
    compiler runs on that. It can't see what other modules of yours define: types from there are taken on trust (and
    listed), programs whose base class is there are not checked, names that are made by running code (loops, star
    imports, decorators of classes) are taken as they come.
    """
    from millpond.cli import check as checks

    reports = checks.check_paths(paths, importing=not no_import)
    if format is CheckFormat.JSON:
        typer.echo(checks.as_json(reports))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for text, bad in checks.as_text(reports):
            head, _, rest = ascii_surrogates(text).partition("\n")
            console.print(Text(head, style="bold red" if bad else ""))
            if rest:
                console.print(Text(rest))
    raise typer.Exit(checks.exit_code(reports))


@app.command()
def doctor(
    *,
    spark: Annotated[bool, typer.Option("--spark", help="Also start a local Spark; takes some seconds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell whether this machine has what Millpond needs, and what to do about the rest."""
    findings = doctors.examine(spark=spark)
    if json:
        typer.echo(doctors.as_json(findings))
    else:
        Console(highlight=False).print(doctors.as_table(findings))
    raise typer.Exit(0 if doctors.healthy(findings) else 1)

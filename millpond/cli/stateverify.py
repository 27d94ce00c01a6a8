"""What `millpond state verify` looks at, and how it tells what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from millpond.checkpoint.read.history import shown_epochs
from millpond.checkpoint.read.plain import printable
from millpond.checkpoint.read.verify import Findings, Problem, verify
from millpond.cli.stateshow import Begin
from millpond.cli.terminal import error_fields
from millpond.engine.publish.replies import STAGING
from millpond.storage.open import open_storage

STRANGE_SHOWN_MAX = 12
"""More names than these are only counted for people; `--json` has all."""


def verify_checkpoint(checkpoint: str, epoch: int | None, begin: Begin, *, everything: bool, outputs: bool) -> Findings:
    """Check a checkpoint; raises if there is none, or no such epoch."""
    chosen = None if epoch is None else (epoch,)
    staged = STAGING if outputs else None
    return verify(open_storage(checkpoint), chosen, everything=everything, staged=staged, begun=begin)


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings for programs."""
    return {
        "ok": not findings.problems,
        "epochs": findings.epochs,
        "files": findings.files,
        "bytes": findings.size_bytes,
        "entries": findings.entries,
        "unnamed": findings.unnamed,
        "strange": findings.strange,
        "problems": [problem_fields(problem) for problem in findings.problems],
    }


def problem_fields(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON shows it."""
    return {"file": problem.file, **_span(problem), **error_fields(problem.error)}


def _span(problem: Problem) -> dict[str, int | None]:
    first, last = (problem.epochs[0], problem.epochs[-1]) if problem.epochs else (None, None)
    return {"first_epoch": first, "last_epoch": last}


def print_findings(console: Console, findings: Findings) -> None:
    """Print what is wrong, and what was looked at."""
    print_problems(console, findings.problems)
    checked = f"{findings.epochs:,} epochs, {findings.files:,} files, {decimal(findings.size_bytes)}"
    words = f"{checked}, {findings.entries:,} entries checked: "
    result = f"{len(findings.problems)} problems" if findings.problems else "all well"
    console.print(Text(words), Text(result, style="red" if findings.problems else "green"), sep="", soft_wrap=True)
    if findings.unnamed:
        text = f"{len(findings.unnamed):,} files that no kept epoch names: left by epochs that are gone or never were"
        console.print(Text(text), soft_wrap=True)
    if findings.strange:
        names = ", ".join(findings.strange[:STRANGE_SHOWN_MAX])
        more = ", ..." if len(findings.strange) > STRANGE_SHOWN_MAX else ""
        text = f"{len(findings.strange):,} strange files, which no Millpond put there and none touches: {names}{more}"
        console.print(Text(printable(text)), soft_wrap=True)


def print_problems(console: Console, problems: Iterable[Problem]) -> None:
    """Print each problem with its place."""
    for problem in problems:
        head, *rest = map(printable, str(problem.error).split("\n"))
        console.print(Text(head, style="bold red"), soft_wrap=True)
        console.print(Text("\n".join([*rest, f"  in        {_place(problem)}"])), soft_wrap=True)


def _place(problem: Problem) -> str:
    epochs = f", named by epoch {shown_epochs(problem.epochs)}" if problem.epochs else ""
    return printable(problem.file) + epochs

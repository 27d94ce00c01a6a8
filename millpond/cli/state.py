"""`millpond state`: what a checkpoint holds, read from its files alone, and what is done with it as a whole.

No Spark is started, no program is imported, and only `gc`, `savepoint`, `fork` and `repair` change anything. Exit
codes: 0 if all went well, 1 if something is wrong with the checkpoint or is not there, 2 if the command line makes no
sense.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from millpond.cli.terminal import errors_shown, print_json, progress

if TYPE_CHECKING:
    from millpond.checkpoint.read.history import History

state = typer.Typer(
    name="state", no_args_is_help=True, help="Look at the state in a checkpoint, without Spark and without the program."
)

PIPE_WIDTH = 1000

CheckpointArgument = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A folder, or an address as s3://...")]
EpochOption = Annotated[int | None, typer.Option("--epoch", min=1, help="By default the newest.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ElementArgument = Annotated[str, typer.Argument(metavar="ELEMENT", help="The name of a state element.")]


@state.command()
def ls(
    checkpoint: CheckpointArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Show so many epochs, the newest ones.")] = 20,
    json: JsonOption = False,
) -> None:
    """List the committed epochs that are kept, oldest first.

    Rows are those fed in the epoch, entries those of the whole state after it, changes those that the epoch changed,
    and delta their bytes. A manifest that can't
    be read is listed with its error, and the exit code is 1.
    """
    from millpond.cli import statekeep as keeps
    from millpond.cli import stateshow as shows

    with _errors(json=json):
        history = _open(checkpoint)
        lines = [shows.epoch_line(history, epoch) for epoch in history.epochs[-limit:]]
        # A job may delete old epochs while they are listed.
        lines = [line for line in lines if "error" not in line or history.holds(line["epoch"])]
        named = keeps.savepoint_lines(history)
        if json:
            print_json({**shows.listing(history, lines), "savepoints": named})
        else:
            shows.print_listing(_console(), history, lines)
            keeps.print_savepoints(_console(), named)
    raise typer.Exit(1 if any("error" in line for line in lines) else 0)


@state.command()
def show(
    checkpoint: CheckpointArgument,
    *,
    epoch: EpochOption = None,
    groups: Annotated[bool, typer.Option("--groups", help="Also the entries in each key group.")] = False,
    json: JsonOption = False,
) -> None:
    """Show one epoch in full: its state elements and how much they hold, counters, sources, outputs and files."""
    from millpond.cli import stateshow as shows

    with _errors(json=json):
        history = _open(checkpoint)
        point = history.point(epoch)
        with progress("reading", shown=not json) as begin:
            report = shows.epoch_report(history, point, begin, by_group=groups)
        if json:
            print_json(report)
        else:
            shows.print_report(_console(), report)


@state.command()
def get(
    checkpoint: CheckpointArgument,
    element: ElementArgument,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="As the element's type says: a number, text, bytes in hex, true or false, a day as 2024-02-29, a "
            "tuple as a JSON array. A `Value` has none. Put -- before one that begins with a dash.",
        ),
    ] = None,
    *,
    epoch: EpochOption = None,
    instance: Annotated[int | None, typer.Option(min=0, help="One instance of partial state; by default all.")] = None,
    json: JsonOption = False,
) -> None:
    """Show the value of one key; exits with 1 if there is no such key.

    Of partial state, the value in each instance that has the key. A key of a matrix is a row, or a column if it is
    stored by column, and the value all its cells.
    """
    from millpond.cli import stateshow as shows

    with _errors(json=json):
        report = shows.value_report(_open(checkpoint), epoch, element, key, instance)
        if json:
            print_json(report.as_json())
        else:
            report.print(_console())


@state.command()
def diff(
    checkpoint: CheckpointArgument,
    before: Annotated[int, typer.Argument(metavar="A", min=0, help="An epoch; 0 is the empty state at the start.")],
    after: Annotated[int, typer.Argument(metavar="B", min=0, help="Another epoch, usually a later one.")],
    *,
    element: Annotated[str | None, typer.Option("--element", help="Only this state element.")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if something differs.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the entries that were added (+), changed (~) or removed (-) from epoch A to epoch B.

    Elements in the order of their declaration; entries by instance or key group, then by key. With --json, one object
    a line, and the totals in the last one. Exits with 0 whether or not something differs, unless --exit-code is given.
    """
    from millpond.checkpoint.read.entries import sides
    from millpond.checkpoint.read.history import names_of
    from millpond.cli import stateshow as shows

    with _errors(json=json):
        history = _open(checkpoint)
        points = history.point(before), history.point(after)
        names = names_of(*points) if element is None else [element]
        for name in names:
            sides(history, *points, name)
        if json:
            count = shows.print_lines(history, *points, names)
        else:
            with progress("reading", shown=True) as begin:
                count = shows.print_changes(_console(), history, *points, names, begin)
    raise typer.Exit(1 if exit_code and count else 0)


@state.command()
def verify(
    checkpoint: CheckpointArgument,
    *,
    epoch: EpochOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every kept epoch.")] = False,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Also the published Parquet files of replies, where they were written.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check that every file that manifests name is there and whole, holds what it should, and that the chain holds.

    By default the newest epoch, which is what a restart needs. Exits with 1 if something is wrong, and says what.
    """
    from millpond.cli import stateverify as verifies

    if everything and epoch is not None:
        raise typer.BadParameter("give --epoch or --all, not both")
    with _errors(json=json):
        with progress("checking", shown=not json) as begin:
            findings = verifies.verify_checkpoint(checkpoint, epoch, begin, everything=everything, outputs=outputs)
        if json:
            print_json(verifies.as_json(findings))
        else:
            verifies.print_findings(_console(), findings)
    raise typer.Exit(1 if findings.problems else 0)


@state.command()
def export(
    checkpoint: CheckpointArgument,
    element: ElementArgument,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="A file that ends with .parquet, .csv or .jsonl.")],
    epoch: EpochOption = None,
    json: JsonOption = False,
) -> None:
    """Write a state element as a table: a row for each entry, with the columns `key` and `value`.

    Partial state has a column `instance` too; a set has no `value`. The file appears when it is whole, and replaces
    one of the same name.
    """
    from millpond.checkpoint.read.plain import printable
    from millpond.cli import stateexport as exports

    with _errors(json=json):
        history = _open(checkpoint)
        point = history.point(epoch)
        with progress("exporting", shown=not json) as begin:
            rows = exports.export(history, point, element, to, begin)
        if json:
            print_json({"ok": True, "element": element, "epoch": point.epoch, "file": str(to), "rows": rows})
        else:
            words = f"{rows:,} rows of {element} at epoch {point.epoch} in {to}"
            _console().print(printable(words), markup=False, soft_wrap=True)


@state.command()
def savepoint(
    checkpoint: CheckpointArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and . _ = -, not digits alone.")],
    *,
    epoch: EpochOption = None,
    delete: Annotated[bool, typer.Option("--delete", help="Take the name away instead.")] = False,
    json: JsonOption = False,
) -> None:
    """Give an epoch a name: it stays, whatever retention says, until the name is deleted.

    `ls` shows names. Those that begin with fork- were made by forks, and can be deleted when their fork is gone.
    """
    from millpond.cli import statekeep as keeps

    if delete and epoch is not None:
        raise typer.BadParameter("give --epoch or --delete, not both")
    with _errors(json=json):
        done = keeps.forget_name(checkpoint, name) if delete else keeps.name_epoch(checkpoint, name, epoch)
        if json:
            print_json({"ok": True, "deleted": delete, **keeps.savepoint_fields(done)})
        else:
            what = "was deleted; it named" if delete else "names"
            _console().print(f"savepoint {done.name} {what} epoch {done.epoch}", markup=False, soft_wrap=True)


@state.command()
def fork(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A checkpoint; @EPOCH or @SAVEPOINT may follow.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where the new checkpoint shall be: nothing may be there.")],
    *,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the files, so that the source is not needed.")] = False,
    json: JsonOption = False,
) -> None:
    """Make a new checkpoint that begins at an epoch of another one, by default the newest, without copying it.

    A job with changed code or other feeds starts from it; the first batch of its query is the fork's first one. Files
    that it lacks are read from the source, where a savepoint keeps them as long as the fork is there.
    """
    from millpond.cli import statekeep as keeps

    with _errors(json=json):
        with progress("copying", shown=not json and copy) as begin:
            made = keeps.make_fork(source, new, begin, copy=copy)
        if json:
            print_json(keeps.fork_fields(made))
        else:
            keeps.print_fork(_console(), made)


@state.command()
def gc(
    checkpoint: CheckpointArgument,
    *,
    last: Annotated[int, typer.Option(min=1, help="Keep so many epochs, the newest ones.")] = 100,
    every: Annotated[int | None, typer.Option(min=1, help="Also keep every Nth epoch.")] = None,
    grace: Annotated[str, typer.Option(help="Time between listing and deleting.")] = "10 minutes",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    json: JsonOption = False,
) -> None:
    """Collect garbage: delete what no kept epoch needs, where no job runs; a running job does it by itself.

    In two calls: the first one puts files on a deletion list, one that comes after the grace period deletes them. With
    --grace "0 s" one call does both. Epochs with a savepoint and what forks need always stay.
    """
    from millpond.checkpoint.retention.retention import Keep
    from millpond.cli import statekeep as keeps

    with _errors(json=json):
        report = keeps.collect(checkpoint, Keep(last, every, grace), trial=dry_run)
        if json:
            print_json(report)
        else:
            keeps.print_collected(_console(), report)


@state.command()
def repair(
    checkpoint: CheckpointArgument,
    *,
    to: Annotated[int | None, typer.Option("--to", min=1, metavar="EPOCH", help="Go back to this epoch.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept-rollback", help="Go on from what is there, although newer epochs are lost.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    json: JsonOption = False,
) -> None:
    """Repair what can be repaired without guessing, where no job runs, and tell which epochs are whole.

    Chunks of snapshots are made again from older ones and deltas, byte for byte. With --to, newer epochs are set aside,
    not deleted: what they applied is lost to the job. With --accept-rollback, a checkpoint that has lost its newest
    epochs (MP361, MP362, MP457) goes on from the newest one that is whole. Exits with 1 if the newest epoch is not
    whole after that.
    """
    from millpond.cli import statekeep as keeps

    with _errors(json=json):
        with progress("checking", shown=not json) as begin:
            done = keeps.repair_checkpoint(checkpoint, to, begin, trial=dry_run, accept=accept)
        if json:
            print_json(keeps.repair_fields(done, trial=dry_run))
        else:
            keeps.print_repair(_console(), done, trial=dry_run)
    raise typer.Exit(0 if done.healthy else 1)


def _open(checkpoint: str) -> History:
    from millpond.checkpoint.read.history import History
    from millpond.storage.open import open_storage

    return History(open_storage(checkpoint))


def _errors(*, json: bool) -> AbstractContextManager[None]:
    from millpond.checkpoint.read.plain import printable

    return errors_shown(json=json, clean=printable)


def _console() -> Console:
    """Return the terminal; a file or a pipe has no width, and lines are not broken there."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)

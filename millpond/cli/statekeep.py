"""Savepoints, forks, garbage and repairs of a checkpoint: what the commands do, and how they tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from millpond.checkpoint.forking import Fork, forget_fork, fork
from millpond.checkpoint.read.history import History, kept_epochs, shown_epochs
from millpond.checkpoint.read.plain import printable
from millpond.checkpoint.records.manifest import GENESIS_NAME
from millpond.checkpoint.repairing import Repair, repair
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.deletionlist import read_lists
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import (
    Savepoint,
    add_savepoint,
    find_savepoint,
    remove_savepoint,
    savepoints,
)
from millpond.cli.stateshow import Begin, Report
from millpond.cli.stateverify import print_problems, problem_fields
from millpond.clock import SystemClock
from millpond.errors import MillpondError
from millpond.storage.addresses import shown_url
from millpond.storage.composed.layered import TrialStorage
from millpond.storage.contract import Storage, is_name
from millpond.storage.open import accept_rollback, open_storage

_CLOCK = SystemClock()


def opened(checkpoint: str, *, trial: bool) -> Storage:
    """Return the storage of a checkpoint, which must be there; for a trial, one that is not changed."""
    storage = History(open_storage(checkpoint)).storage
    return TrialStorage(storage) if trial else storage


def collect(checkpoint: str, keep: Keep, *, trial: bool) -> Report:
    """Delete what no kept epoch needs, as far as the grace period is over."""
    storage = opened(checkpoint, trial=trial)
    done = collect_all(storage, keep, _CLOCK)
    lists = read_lists(storage)
    kept, _ = kept_epochs(storage)
    return {
        "ok": True,
        "checkpoint": shown_url(storage.url),
        "dry_run": trial,
        "kept": list(kept),
        "deleted_manifests": done.manifests,
        "deleted_files": done.files,
        "newly_condemned": done.condemned,
        "waiting": sum(len(listed.names) for listed in lists.values()),
    }


def print_collected(console: Console, report: Report) -> None:
    """Print what was deleted and what waits."""
    would = "would be " if report["dry_run"] else ""
    console.print(
        Text(f"{report['deleted_manifests']:,} epochs and {report['deleted_files']:,} files {would}deleted"),
        soft_wrap=True,
    )
    if report["waiting"]:
        text = f"{report['waiting']:,} names {would}on the deletion list: a call after the grace period deletes them"
        console.print(Text(text), soft_wrap=True)
    console.print(Text(f"kept: {shown_epochs(report['kept']) or 'nothing'}"), soft_wrap=True)


def savepoint_fields(savepoint: Savepoint) -> Report:
    """Return a savepoint as JSON shows it."""
    named = {"name": savepoint.name, "epoch": savepoint.epoch, "hash": savepoint.hash}
    fork_of = {"fork": shown_url(savepoint.fork)} if savepoint.fork else {}
    return {**named, "created_ms": savepoint.created_ms, **fork_of}


def name_epoch(checkpoint: str, name: str, epoch: int | None) -> Savepoint:
    """Name an epoch of a checkpoint."""
    return add_savepoint(open_storage(checkpoint), name, epoch)


def forget_name(checkpoint: str, name: str) -> Savepoint:
    """Take a savepoint away; that of a fork only if the fork is gone."""
    storage = opened(checkpoint, trial=False)
    savepoint = find_savepoint(storage, name)
    if savepoint.fork:
        forget_fork(storage, savepoint)
    else:
        remove_savepoint(storage, name)
    return savepoint


def savepoint_lines(history: History) -> list[Report]:
    """Return the savepoints of a checkpoint; `lost` if their epoch is not there any more, or is another one."""
    lines = []
    for savepoint in savepoints(history.storage):
        lost = savepoint.epoch not in history.epochs
        if not lost:
            try:
                lost = history.hash_of(savepoint.epoch) != savepoint.hash
            except MillpondError:
                lost = True
        lines.append(savepoint_fields(savepoint) | ({"lost": True} if lost else {}))
    return lines


def print_savepoints(console: Console, lines: Iterable[Report]) -> None:
    """Print savepoints, one a line."""
    for line in lines:
        words = f"savepoint {line['name']}: epoch {line['epoch']}"
        words += f", for the fork {line['fork']}" if "fork" in line else ""
        style = "red" if "lost" in line else ""
        words += ", which is lost" if "lost" in line else ""
        console.print(Text(printable(words), style=style), soft_wrap=True)


def make_fork(source: str, new: str, begin: Begin, *, copy: bool) -> Fork:
    """Fork a checkpoint, at the epoch or savepoint after the last `@` of its address if there is one."""
    address, epoch = _with_point(source)
    return fork(address, new, epoch, copy=copy, begun=begin)


def _with_point(source: str) -> tuple[str, str | None]:
    """Split an address from its point; what is a checkpoint as it stands, with an @ of its own, is taken so."""
    address, at, point = source.rpartition("@")
    if not at or not address or "/" in point:
        return source, None
    try:
        if open_storage(source).contains(GENESIS_NAME):
            return source, None
    except MillpondError:
        pass
    return address, point


def fork_fields(made: Fork) -> Report:
    """Return a fork as JSON shows it."""
    return {"ok": True, **asdict(made), "url": shown_url(made.url), "base": shown_url(made.base)}


def print_fork(console: Console, made: Fork) -> None:
    """Print what a fork is, and what it needs."""
    words = f"{shown_url(made.url)} begins at epoch {made.epoch} of {shown_url(made.base)}"
    console.print(Text(printable(words)), soft_wrap=True)
    needs = f"{made.files:,} files were copied" if made.copied else f"{made.files:,} files are read from there: keep it"
    console.print(Text(needs), soft_wrap=True)


def repair_checkpoint(checkpoint: str, to: int | None, begin: Begin, *, trial: bool, accept: bool = False) -> Repair:
    """Make again what can be made again, and go back if asked to."""
    if accept and not trial:
        accept_rollback(checkpoint)
    storage = opened(checkpoint, trial=trial)
    done = repair(storage, to, begun=begin)
    if accept and to is None and done.whole and done.whole[-1] != done.newest:
        done = repair(storage, done.whole[-1], begun=begin)
    return done


def repair_fields(done: Repair, *, trial: bool) -> Report:
    """Return a repair as JSON shows it."""
    found: dict[str, Any] = {"ok": done.healthy, "dry_run": trial, "newest": done.newest, "whole": done.whole}
    found |= {"rebuilt": done.rebuilt, "lost": done.lost, "set_aside": done.went_back}
    return {
        **found,
        "savepoints_lost": done.savepoints_lost,
        "in_the_way": done.in_the_way,
        "problems": [problem_fields(problem) for problem in done.problems],
    }


def print_repair(console: Console, done: Repair, *, trial: bool) -> None:
    """Print what was wrong, what was repaired, and what to do about the rest."""
    print_problems(console, done.problems)
    would = "would be " if trial else ""
    lines = [f"{name} {would}made again, byte for byte" for name in done.rebuilt]
    lines += [f"{name} can't be made again" for name in done.lost]
    if done.went_back:
        lines.append(f"{would}set aside: epoch {shown_epochs(done.went_back)}, and with them what they applied")
    lines += [f"the savepoint {name} has lost its epoch" for name in done.savepoints_lost]
    lines.append(f"whole: epoch {shown_epochs(done.whole) or 'none'}")
    lines += [_what_now(done, trial=trial)]
    for line in lines:
        console.print(Text(printable(line)), soft_wrap=True)


def _what_now(done: Repair, *, trial: bool) -> str:
    """Return what a person does after a repair."""
    if done.healthy:
        return f"a job {'could' if trial else 'can'} start at epoch {done.newest}"
    if not done.whole:
        return "no epoch is whole: restore the checkpoint from a copy"
    if done.whole[-1] != done.newest:
        return f"epoch {done.newest} is not whole; to lose what came after: --to {done.whole[-1]}"
    stray = done.in_the_way[0]
    way = f"--to {done.newest} sets it aside" if is_name(stray) else "take it away by hand"
    return f"{stray} stands in the way of a start; {way}"

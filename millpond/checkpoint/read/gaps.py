"""Epochs that were committed and are not there, although nobody gave them up.

Epochs are numbered without gaps. Before the manifest of one is deleted, a mark says that its number is given away
(`retired.py`); a fork begins with the epoch that it was made at. Every other epoch that is missing is lost.
"""

from __future__ import annotations

from millpond.checkpoint.read.history import History, kept_epochs, shown_epochs
from millpond.checkpoint.records.manifest import MANIFESTS, manifest_name
from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.records.offers import Forked
from millpond.checkpoint.recovery import CERTAIN, manifests_lost
from millpond.checkpoint.retention.retired import SIZES, Marks, is_retired
from millpond.errors import EpochError, MillpondError
from millpond.storage.composed.layered import read_base

_LEFT = ("deltas", "snapshots", "pending", "inputs", "saves")
"""Files of epochs; a first epoch that never committed may have left some."""

Gap = tuple[str, range, EpochError]
"""Where to look, which epochs are missing, and the error that says so."""


def missing_epochs(history: History) -> list[Gap]:
    """The runs of epochs that are lost. Marks are looked for after manifests: so none that is deleted now is missed."""
    marks = Marks.read(history.storage)
    if not history.epochs:
        return _without_any(history)
    found: list[range] = []
    at = _first(history)
    for epoch in history.epochs:
        found += _unmarked(history, marks, range(at, epoch))
        at = max(at, epoch + 1)
    # The newest epoch is never given up: marks beyond it, and what is noted of the last one, know of others.
    until = max(marks.until, history.head.epoch + 1 if history.head else 0)
    if until > at and kept_epochs(history.storage)[0][-1:] == history.epochs[-1:]:
        found.append(range(at, until))
    return [(manifest_name(run[0]), run, _lost(run)) for run in found]


def _without_any(history: History) -> list[Gap]:
    storage = history.storage
    there = [folder for folder in (*CERTAIN, *_LEFT) if given_in(storage, folder)]
    if not there or kept_epochs(storage)[0]:
        return []
    return [(MANIFESTS, range(0), manifests_lost(there))]


def _first(history: History) -> int:
    """The first epoch that there ever was in a checkpoint."""
    try:
        base = read_base(history.storage)
        if base is not None:
            return base.epoch
        oldest = history.epochs[0]
        return oldest if isinstance(history.manifest(oldest)[0].offer, Forked) else 1
    except MillpondError:
        # It is damaged, which is told elsewhere, and could be the first one of a fork.
        return history.epochs[0]


def _unmarked(history: History, marks: Marks, epochs: range) -> list[range]:
    """The runs of some epochs that no mark covers."""
    found: list[range] = []
    at = epochs.start
    while at < epochs.stop:
        end = marks.end_of(at)
        if end is None and is_retired(history.storage, at):
            # A small mark that became a large one while marks were listed.
            end = (at // SIZES[0] + 1) * SIZES[0]
        if end is None:
            if found and found[-1].stop == at:
                found[-1] = range(found[-1].start, at + 1)
            else:
                found.append(range(at, at + 1))
        at = end or at + 1
    return found


def _lost(epochs: range) -> EpochError:
    return EpochError(
        "MP457",
        "manifests of the checkpoint are missing",
        expected=f"the manifest of each epoch that was not given up: of epoch {shown_epochs(epochs)}",
        found="neither a manifest nor a mark that it was deleted by retention",
        hint="restore the files from a copy of the checkpoint; later epochs do not need them",
    )

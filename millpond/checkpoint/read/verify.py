"""Looking at everything that manifests name: that it is there, is what was written, and makes sense.

Epochs are numbered without gaps. Before the manifest of one is deleted, a mark says that its number is given away
(`retired.py`); a fork begins with the epoch that it was made at. Every other epoch that is missing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.read.history import History, is_here, kept_epochs, shown_epochs
from millpond.checkpoint.read.pieces import Told, cuts_of, tell_nobody
from millpond.checkpoint.records.deltas import FOLDERS
from millpond.checkpoint.records.heads import noted_heads, read_head
from millpond.checkpoint.records.manifest import (
    GENESIS_NAME,
    MANIFESTS,
    Elements,
    EpochDeltas,
    Manifest,
    OutputFile,
    SaveRef,
    StateFile,
    manifest_name,
)
from millpond.checkpoint.records.naming import given_in, strange_in
from millpond.checkpoint.records.offers import Forked
from millpond.checkpoint.records.saves import read_save
from millpond.checkpoint.recovery import CERTAIN, manifests_lost, misplaced, read_changes, read_genesis
from millpond.checkpoint.retention.retired import SIZES, Marks, is_retired
from millpond.errors import EpochError, MillpondError, MissingError, NoCheckpointError, StateError
from millpond.ids import ManifestHash
from millpond.state.changes import Changes
from millpond.state.containers.value import THE_KEY
from millpond.state.local.storekey import unit_of
from millpond.state.units import store_keys_of
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.layered import read_base
from millpond.storage.content import FileRef, get_content
from millpond.storage.contract import Storage, is_name
from millpond.storage.frame import FrameKind, unseal

PENDING = "pending"
"""Where messages lie that an epoch left."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a file that these epochs name; those that are not kept any more are among them."""

    file: str
    epochs: range
    error: MillpondError


@dataclass(slots=True)
class Findings:
    """What was looked at, and what is wrong."""

    problems: list[Problem] = field(default_factory=list)
    epochs: int = 0
    files: int = 0
    size_bytes: int = 0
    entries: int = 0
    unnamed: list[str] | None = None
    """Files that no kept manifest names, if all manifests were read: left by epochs that did not commit."""
    strange: list[str] | None = None
    """Files under names that Millpond never gives, if all was looked at: they are left alone, and are no damage."""

    @contextmanager
    def noting(self, file: str, epochs: range) -> Iterator[None]:
        """Note a coded error as a problem of a file, and go on."""
        try:
            yield
        except MillpondError as error:
            self.problems.append(Problem(file, epochs, error))


Begun = Callable[[int], Told]
"""Is told how many bytes there are to read, once that is known, and gives what is told of each file."""


@dataclass(frozen=True, slots=True)
class _Named:
    """All that some manifests name, each once, with the epochs that do; state files also with the epoch they are of."""

    states: dict[StateFile, range] = field(default_factory=dict)
    written: dict[StateFile, int] = field(default_factory=dict)
    pending: dict[FileRef, range] = field(default_factory=dict)
    outputs: dict[OutputFile, range] = field(default_factory=dict)
    inputs: dict[str, range] = field(default_factory=dict)
    saves: dict[SaveRef, range] = field(default_factory=dict)
    elements: dict[int, tuple[int, Elements | None]] = field(default_factory=dict)
    """By epoch, the last one up to it that changed the elements, and what its manifest says of them."""

    def add(self, manifest: Manifest, storage: Storage) -> None:
        """Take up what a manifest names: its snapshot and all deltas that it lists.

        What an epoch changed whose rows were logged may be near its host alone: then the rows must be there. So may
        files of elements with bounded loss.
        """
        here = [_here(storage, delta) for delta in manifest.deltas]
        self.elements[manifest.epoch] = manifest.evolved, manifest.elements
        for save in manifest.saves:
            self.saves[save] = _with(self.saves.get(save), manifest.epoch)
        for delta in manifest.deltas:
            for _, name in delta.input.rows if delta.input is not None else ():
                self.inputs[name] = _with(self.inputs.get(name), manifest.epoch)
        for state_file in (*manifest.snapshot, *(file for delta in here for file in delta.files)):
            self.states[state_file] = _with(self.states.get(state_file), manifest.epoch)
            self.written.setdefault(state_file, manifest.snapshot_epoch)
        for delta in manifest.deltas:
            self.written.update(dict.fromkeys(delta.files, delta.epoch))
        for ref in manifest.pending:
            self.pending[ref] = _with(self.pending.get(ref), manifest.epoch)
        for output in manifest.outputs:
            self.outputs[output] = _with(self.outputs.get(output), manifest.epoch)

    def names(self) -> set[str]:
        """Return the names in the checkpoint's storage."""
        return {state_file.file.name for state_file in self.states} | {ref.name for ref in self.pending}


def _here(storage: Storage, delta: EpochDeltas) -> EpochDeltas:
    """Return what of an epoch's changes must be in the checkpoint: all but what may be near a host alone, and is."""
    if delta.input is not None and not is_here(storage, delta):
        return delta.without({state.file.name for state in delta.files})
    return delta.without({name for name in delta.lazy_names if not storage.contains(name)})


def _with(epochs: range | None, epoch: int) -> range:
    return range(epoch if epochs is None else epochs.start, epoch + 1)


NO_EPOCHS = range(0)


def verify(
    storage: Storage,
    epochs: Iterable[int] | None = None,
    *,
    everything: bool = False,
    staged: str | None = None,
    begun: Begun = lambda _size_bytes: tell_nobody,
) -> Findings:
    """Check the given epochs, by default the newest, or everything that is kept.

    With `staged`, the folder where files of replies wait inside a sink's, published files of replies are checked too.
    Raises only if there is no checkpoint to check, or no such epoch.
    """
    findings = Findings()
    try:
        history = History(storage)
    except NoCheckpointError:
        raise
    except MillpondError as error:
        findings.problems.append(Problem(_first_unreadable(storage), NO_EPOCHS, error))
        return findings
    for stray in history.strays:
        with findings.noting(stray, NO_EPOCHS):
            _refuse_stray(storage, stray)
    chosen = history.epochs if everything else tuple(sorted(epochs or history.epochs[-1:]))
    for epoch in chosen:
        if epoch not in history.epochs:
            history.point(epoch)
    if everything or epochs is None:
        findings.problems += [Problem(*gap) for gap in missing_epochs(history)]
    named = _check_manifests(history, chosen, findings)
    told = begun(sum(f.file.size_bytes for f in named.states) + sum(ref.size_bytes for ref in named.pending))
    _check_states(history, named, findings, told)
    for ref, of in named.pending.items():
        with findings.noting(ref.name, of):
            unseal(FrameKind.PENDING, get_content(storage, ref), ref.name)
        _count(findings, ref.size_bytes, told)
    for name, of in named.inputs.items():
        with findings.noting(name, of):
            unseal(FrameKind.INPUT, storage.get(name), name)
        findings.files += 1
    for save, of in named.saves.items():
        with findings.noting(save.file.name, of):
            read_save(storage, save)
        _count(findings, save.file.size_bytes, tell_nobody)
    if staged is not None:
        _check_outputs(named, staged, findings)
    findings.problems = [problem for problem in findings.problems if not _given_up(storage, problem, frozenset(chosen))]
    if everything:
        there = [name for folder in (*FOLDERS.values(), PENDING) for name in given_in(storage, folder)]
        own = named.names()
        findings.unnamed = [name for name in there if name not in own]
        findings.strange = strange_in(storage)
        _check_savepoints(history, findings)
        _check_heads(history.storage, findings)
    return findings


def _given_up(storage: Storage, problem: Problem, chosen: frozenset[int]) -> bool:
    """Say whether something is missing only because a job that runs gave up all epochs that need it meanwhile."""
    concerned = [epoch for epoch in problem.epochs if epoch in chosen]
    try:
        return bool(concerned) and all(
            not storage.contains(manifest_name(epoch)) and is_retired(storage, epoch) for epoch in concerned
        )
    except MillpondError:
        # What stands there is no file: that is a problem of its own.
        return False


def _first_unreadable(storage: Storage) -> str:
    """Say what keeps a checkpoint from being opened: its genesis, or the folder of its manifests."""
    try:
        read_genesis(storage)
    except MillpondError:
        return GENESIS_NAME
    return MANIFESTS


def _refuse_stray(storage: Storage, stray: str) -> None:
    """Raise what is wrong with a file among manifests that is none: a start would not go on with it there."""
    if is_name(stray):
        # A link or a special file is told as such.
        storage.contains(stray)
    raise misplaced(stray, "a manifest, named by the digits of its epoch", "another name")


def _check_savepoints(history: History, findings: Findings) -> None:
    # Late, because savepoints are put by who has read a history.
    from millpond.checkpoint.retention.savepoints import SAVEPOINTS, check_savepoint

    for file in given_in(history.storage, SAVEPOINTS):
        with findings.noting(file, NO_EPOCHS):
            check_savepoint(history, file)


def _check_heads(storage: Storage, findings: Findings) -> None:
    """Look at the notes of heads: a start goes by their names, and what is damaged in one is still damage."""
    for head in noted_heads(storage):
        with findings.noting(head.name, range(head.epoch, head.epoch + 1)):
            told = read_head(storage, head)
            if told.epoch != head.epoch or not head.is_of(told.hash):
                raise misplaced(head.name, f"a note of epoch {head.epoch}", f"one of epoch {told.epoch}")


def _count(findings: Findings, size_bytes: int, told: Told) -> None:
    findings.files += 1
    findings.size_bytes += size_bytes
    told(size_bytes)


def _check_manifests(history: History, chosen: Iterable[int], findings: Findings) -> _Named:
    named = _Named()
    hashes: dict[int, ManifestHash | None] = {}
    own: dict[int, EpochDeltas] = {}
    for epoch in chosen:
        findings.epochs += 1
        with findings.noting(manifest_name(epoch), range(epoch, epoch + 1)):
            manifest, digest = history.manifest(epoch)
            hashes[epoch] = digest
            own[epoch] = manifest.deltas[-1]
            named.add(manifest, history.storage)
            _check_ranges(manifest, history.genesis.key_groups)
            for delta in manifest.deltas:
                if delta.epoch - 1 not in hashes:
                    hashes[delta.epoch - 1] = history.hash_of(delta.epoch - 1)
                _check_delta(manifest, delta, hashes[delta.epoch - 1], own.get(delta.epoch, delta))
            # No later manifest looks further back.
            _forget(hashes, manifest.deltas[0].epoch - 1)
            _forget(own, manifest.deltas[0].epoch)
    return named


def _forget(known: dict[int, Any], before: int) -> None:
    for epoch in [epoch for epoch in known if epoch < before]:
        del known[epoch]


def _check_delta(manifest: Manifest, delta: EpochDeltas, parent: str | None, own: EpochDeltas) -> None:
    """Check that a delta stands on the manifest before it, and is the one that its own epoch committed."""
    if parent is not None and delta.parent != parent:
        what = f"epoch {delta.epoch} on a parent with hash"
        raise misplaced(manifest.name, f"{what} {parent}", f"{what} {delta.parent}")
    gone = own.lazy_names - delta.lazy_names if _lost_after(manifest, delta) else frozenset()
    if delta != own.without(gone):
        raise misplaced(manifest.name, f"the files that epoch {delta.epoch} committed", "other files for that epoch")


def _lost_after(manifest: Manifest, delta: EpochDeltas) -> bool:
    """Say whether an epoch after this one said that something is lost."""
    return any(later.loss is not None and later.epoch > delta.epoch for later in manifest.deltas)


def _check_ranges(manifest: Manifest, key_groups: int) -> None:
    for state_file in (*manifest.snapshot, *(file for delta in manifest.deltas for file in delta.files)):
        if state_file.last_group >= key_groups:
            found = f"{state_file.file.name} with group {state_file.last_group}"
            raise _contradiction(manifest, f"key groups 0 to {key_groups - 1}", found)
    covered = 0
    for state_file in sorted(manifest.snapshot, key=lambda state_file: state_file.first_group):
        if state_file.first_group > covered:
            break
        covered = max(covered, state_file.last_group + 1)
    if manifest.snapshot_epoch and covered < key_groups:
        raise _contradiction(manifest, "a snapshot of every key group", f"none of group {covered}")


def _contradiction(manifest: Manifest, expected: str, found: str) -> EpochError:
    return EpochError(
        "MP454",
        f"{manifest.name} does not fit its checkpoint",
        expected=expected,
        found=found,
        hint="it was not written by Millpond: restore it from a copy",
    )


def _check_states(history: History, named: _Named, findings: Findings, told: Told) -> None:
    readers = _Readers(history, named)
    for state_file, of in named.states.items():
        name = state_file.file.name
        with findings.noting(name, of):
            changes = read_changes(history.storage, state_file)
            findings.entries += len(changes[0])
            known = readers.at(named.written[state_file], of[0])
            if known is not None:
                _check_entries(known, name, changes)
        _count(findings, state_file.file.size_bytes, told)


@dataclass(frozen=True, slots=True)
class _Known:
    """What reads the entries of a file, by index; what it `brings_over` from older elements is gone from it."""

    readers: tuple[ElementReader | None, ...]
    brings_over: bool


class _Readers:
    """What reads the files of an epoch: elements may be of other types at each."""

    def __init__(self, history: History, named: _Named) -> None:
        self._history = history
        self._named = named
        self._held: dict[tuple[int, int], _Known | None] = {}

    def at(self, epoch: int, named_at: int) -> _Known | None:
        """For a file of one epoch, named by another; None if the types that it was written with are not kept."""
        if (epoch, named_at) not in self._held:
            self._held[epoch, named_at] = self._find(epoch, named_at)
        return self._held[epoch, named_at]

    def _find(self, epoch: int, named_at: int) -> _Known | None:
        history = self._history
        # As they were read before: the epochs may be given up meanwhile.
        evolved, elements = self._named.elements[named_at]
        if evolved > epoch and epoch in history.epochs:
            # A damaged manifest is told of itself, and not as a problem of the file.
            with suppress(MillpondError):
                manifest = history.manifest(epoch)[0]
                evolved, elements = manifest.evolved, manifest.elements
        if evolved > epoch:
            return None
        genesis = history.genesis
        readers = tuple(
            None if schema is None else ElementReader(index, schema, genesis.key_groups, genesis.instances)
            for index, schema in enumerate(genesis.elements if elements is None else elements)
        )
        return _Known(readers, brings_over=evolved == epoch)


def _check_entries(known: _Known, name: str, changes: Changes) -> None:
    readers = known.readers
    for (index, group), cut in cuts_of(changes):
        # Entries that go with an evolution may be of elements, and have keys of types, that are no more.
        keys, values = _entries_that_stay(cut) if known.brings_over else cut
        if not keys:
            continue
        reader = readers[index] if index < len(readers) else None
        if reader is None:
            raise _foreign(name, f"entries of {len(readers)} elements", f"one of element {index}")
        _check_keys(reader, name, group, keys)
        for value in values:
            if value is not None:
                reader.check_value(value)


def _entries_that_stay(changes: Changes) -> Changes:
    return changes.at(at for at, value in enumerate(changes.values) if value is not None)


def _check_keys(reader: ElementReader, name: str, group: int, keys: list[bytes]) -> None:
    """Keys must be whole, which is seen by writing them again, and under their own key group."""
    units = reader.decode_keys([unit_of(key) for key in keys])
    if reader.keyed:
        good = keys == store_keys_of(reader.index, reader.codec, units, reader.layout.key_groups)
    else:
        # Where an instance lies depends on how many there were when the file was written.
        good = [unit_of(key) for key in keys] == reader.codec.encode_many(units)
        good = good and (reader.partial or group == reader.layout.group_of(THE_KEY))
    if not good:
        raise _foreign(name, f"keys of `{reader.schema.name}` under their own key groups", f"one under group {group}")


def _foreign(name: str, expected: str, found: str) -> StateError:
    return StateError(
        "MP246",
        f"{name} holds an entry that does not belong there",
        expected=expected,
        found=found,
        hint="it was not written by this version of Millpond: restore the checkpoint from a copy",
    )


def _check_outputs(named: _Named, staged: str, findings: Findings) -> None:
    """Files of replies that were published by appearing; the others were handed over, and are gone by now."""
    for output, of in named.outputs.items():
        if not output.visible:
            continue
        with findings.noting(f"{output.root}/{output.file.name}", of):
            storage = FileStorage(output.root)
            waiting = FileRef(f"{staged}/{output.file.name}", output.file.size_bytes, output.file.sha256)
            try:
                get_content(storage, output.file)
            except MissingError:
                # The newest epoch may not be published yet: the next start does that.
                if not storage.contains(waiting.name):
                    raise
                get_content(storage, waiting)
        findings.files += 1
        findings.size_bytes += output.file.size_bytes


_LEFT = ("deltas", "snapshots", "pending", "inputs", "saves")
"""Files of epochs; a first epoch that never committed may have left some."""

Gap = tuple[str, range, EpochError]
"""Where to look, which epochs are missing, and the error that says so."""


def missing_epochs(history: History) -> list[Gap]:
    """Return the runs of epochs that are lost. Marks are looked for after manifests.

    So none that is deleted now is missed.
    """
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
    """Return the first epoch that there ever was in a checkpoint."""
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
    """Return the runs of some epochs that no mark covers."""
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

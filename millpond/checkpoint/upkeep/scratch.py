"""The state of some elements in a store of its own, filled from a checkpoint's files one at a time.

What is held in memory is one file, whatever the size of the state. The store lies in a folder that goes away with it;
one that a killed process left is removed by the next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from millpond.checkpoint.records.work import Parent
from millpond.checkpoint.recovery import read_changes, restore_files
from millpond.crashpoints import crashpoint
from millpond.state.local.localstore import LocalStore
from millpond.state.local.ownfolders import make_private
from millpond.state.local.storekey import element_of
from millpond.state.local.storeversion import Stamp, StoreVersion
from millpond.state.local.storeview import StoreView
from millpond.storage.contract import Storage

Tell = Callable[[int, int], None]
"""Is told how much is done, and of how much."""

_PREFIX = "scratch-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder where entries are kept while a state changes as a whole, and who is told how far that is."""

    folder: Path
    reading: Tell
    writing: Tell


@contextmanager
def scratch_view(storage: Storage, parent: Parent, elements: Collection[int], scratch: Scratch) -> Iterator[StoreView]:
    """Yield a view of all entries of some elements, by their index, as the parent has them.

    Nothing is read for none.
    """
    with scratch_store(scratch.folder) as store:
        _fill(store, storage, parent, frozenset(elements), scratch.reading)
        crashpoint("scratch.filled")
        with store.view() as view:
            yield view


@contextmanager
def scratch_store(folder: Path) -> Iterator[LocalStore]:
    """Yield a store that nobody else uses, with nothing in it."""
    with _own_folder(folder) as place:
        store = LocalStore(place)
        try:
            yield store
        finally:
            store.close()


def _fill(store: LocalStore, storage: Storage, parent: Parent, elements: frozenset[int], tell: Tell) -> None:
    files = restore_files(parent, 0, parent.key_groups - 1) if elements else ()
    total = sum(state_file.file.size_bytes for state_file in files)
    done = 0
    # Each file is a transaction of its own, between stamps that count files: nobody else reads this store.
    store.rebuild(_stamp(parent, 0), ())
    for number, state_file in enumerate(files):
        changes = read_changes(storage, state_file)
        loaded = changes.at(at for at, key in enumerate(changes.keys) if element_of(key) in elements)
        assert store.advance(StoreVersion(_stamp(parent, number)), _stamp(parent, number + 1), [loaded]), store.path
        done += state_file.file.size_bytes
        tell(done, total)


def _stamp(parent: Parent, files: int) -> Stamp:
    return Stamp(parent.uuid, files, parent.hash)


@contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that nobody else uses; its lock goes with the process, and then anybody may remove it."""
    make_private(folder)
    with _locked(folder):
        for left in folder.glob(f"{_PREFIX}*"):
            _remove_left(left)
        place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        lock = _lock(place, fcntl.LOCK_EX)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = _lock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


def _remove_left(place: Path) -> None:
    with suppress(BlockingIOError, FileNotFoundError, NotADirectoryError):
        lock = _lock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _lock(place: Path, how: int) -> int:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

"""A disk in memory that can lose its power: it records every call, and says what may be left after any of them.

The rules are those at the top of `millpond/storage/door.py`: content is certain after `sync`, names are certain after
`sync_folder`, and everything else may or may not be there, in any combination, torn or filled with garbage.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath

from millpond.storage.door import Door, Entry, EntryKind

FOLDER = -1
"""The inode number that stands for any folder; a folder is known by its path."""

Tree = dict[str, bytes | None]
"""Path to content; None is a folder."""


class PowerCutError(BaseException):
    """The process ends here; no code of ours may catch it."""


@dataclass(frozen=True)
class Named:
    """A name was given to an inode, or taken away (None)."""

    folder: str
    name: str
    inode: int | None


@dataclass(frozen=True)
class Wrote:
    inode: int
    data: bytes


@dataclass(frozen=True)
class Synced:
    inode: int


@dataclass(frozen=True)
class FolderSynced:
    folder: str


class ModelDoor(Door):
    """A door to a disk in memory. `forgets` names calls that do nothing, to see that they are needed."""

    def __init__(self, tree: Tree | None = None, forgets: frozenset[str] = frozenset()):
        self.names: dict[str, dict[str, int]] = {"/": {}}
        self.content: dict[int, bytes] = {}
        self.log: list[object] = []
        self.forgets = forgets
        self.dies_after: int | None = None
        for path, data in sorted((tree or {}).items()):
            self._plant(path, data)
        self.planted = (
            {folder: dict(names) for folder, names in self.names.items()},
            dict(self.content),
        )

    def _plant(self, path, data):
        parts = PurePosixPath(path)
        if data is None:
            self.names[path] = {}
            self.names[str(parts.parent)][parts.name] = FOLDER
        else:
            inode = len(self.content)
            self.content[inode] = data
            self.names[str(parts.parent)][parts.name] = inode

    def _note(self, record):
        self.log.append(record)
        if self.dies_after is not None and len(self.log) >= self.dies_after:
            raise PowerCutError

    def _inode(self, path):
        names = self.names.get(str(path.parent))
        if names is None or path.name not in names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return names[path.name]

    def _name(self, path, inode):
        names = self.names.get(str(path.parent))
        if names is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path.name in names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        names[path.name] = inode
        self._note(Named(str(path.parent), path.name, inode))

    def create(self, path):
        inode = len(self.content)
        self.content[inode] = b""
        self._name(path, inode)
        return inode

    def write(self, descriptor, data):
        self.content[descriptor] += bytes(data)
        self._note(Wrote(descriptor, bytes(data)))
        return len(data)

    def sync(self, descriptor):
        if "sync" not in self.forgets:
            self._note(Synced(descriptor))

    def close(self, descriptor):
        pass

    def link(self, source, target):
        self._name(target, self._inode(source))

    def rename(self, source, target):
        raise AssertionError("a rename is no fence: storage never renames")

    def unlink(self, path):
        self._inode(path)
        del self.names[str(path.parent)][path.name]
        self._note(Named(str(path.parent), path.name, None))

    def mkdir(self, path):
        self.names.setdefault(str(path), {})
        self._name(path, FOLDER)

    def sync_folder(self, path):
        assert str(path) in self.names, path
        if "sync_folder" not in self.forgets:
            self._note(FolderSynced(str(path)))

    def read(self, path):
        return self.content[self._inode(path)]

    def open_to_read(self, path):
        return self._inode(path)

    def read_at(self, descriptor, size, offset):
        return self.content[descriptor][offset : offset + size]

    def listdir(self, path):
        if str(path) not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return list(self.names[str(path)])

    def entry(self, path):
        if str(path) == "/":
            return Entry(EntryKind.FOLDER, 0, 0)
        try:
            inode = self._inode(Path(path))
        except FileNotFoundError:
            return None
        if inode == FOLDER:
            return Entry(EntryKind.FOLDER, 0, 0)
        return Entry(EntryKind.FILE, len(self.content[inode]), 0)

    def after_power_cut(self, cut: int) -> list[Tree]:
        """Every tree that may be on the disk if the power is cut after the first `cut` records."""
        durable_names, durable_content, pending, unsynced = self._durable(cut)
        staged = [change for change in pending if change.folder.endswith(".staging")]
        others = [change for change in pending if not change.folder.endswith(".staging")]
        trees = {}
        # Nobody reads the staging folder, so for it both extremes are enough.
        for kept_staged in ([], staged):
            for choice in product((False, True), repeat=len(others)):
                kept = [change for change, keep in zip(others, choice, strict=True) if keep]
                names = {folder: dict(entries) for folder, entries in durable_names.items()}
                for change in (*kept_staged, *kept):
                    _apply(names, change)
                for content in _contents(durable_content, unsynced):
                    tree = _tree(names, content)
                    trees[repr(sorted(tree.items()))] = tree
        return list(trees.values())

    def _durable(self, cut):
        names = {folder: dict(entries) for folder, entries in self.planted[0].items()}
        content = dict(self.planted[1])
        pending: list[Named] = []
        written: dict[int, bytes] = {}
        for record in self.log[:cut]:
            match record:
                case Named(_, _, inode):
                    pending.append(record)
                    if inode is not None and inode != FOLDER and inode not in content:
                        written.setdefault(inode, b"")
                case Wrote(inode, data):
                    written[inode] = written.get(inode, b"") + data
                case Synced(inode):
                    content[inode] = written.pop(inode, content.get(inode, b""))
                case FolderSynced(folder):
                    for change in pending:
                        if change.folder == folder:
                            _apply(names, change)
                    pending = [change for change in pending if change.folder != folder]
        return names, content, pending, written


def _apply(names, change):
    entries = names.setdefault(change.folder, {})
    if change.inode is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.inode


def _contents(durable, unsynced):
    """For each file whose content was not synced: nothing, one byte, half, all, or garbage of the full length."""
    inodes = list(unsynced)
    variants = [
        dict.fromkeys((b"", data[:1], data[: len(data) // 2], data, b"\xa5" * len(data))) for data in unsynced.values()
    ]
    if len(inodes) > 2:
        variants = [list(choices)[:2] for choices in variants]
    for choice in product(*variants):
        yield {**durable, **dict(zip(inodes, choice, strict=True))}


def _tree(names, content):
    """What can be reached from the root: a folder whose own name was lost is lost with all it holds."""
    tree: Tree = {}
    folders = ["/"]
    while folders:
        folder = folders.pop()
        for name, inode in names.get(folder, {}).items():
            path = f"{folder.rstrip('/')}/{name}"
            if inode == FOLDER:
                tree[path] = None
                folders.append(path)
            else:
                tree[path] = content[inode]
    return tree

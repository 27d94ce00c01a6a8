"""A disk in memory for files that are changed in place: what may be left of them after the power is cut.

The rules are those at the top of `millpond/storage/door.py`. Of the changes to a file since its last sync any may be
there, whole, half or as garbage, and any may be lost; names are as in `model_disk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tests.crash.model_disk import FOLDER, FolderSynced, ModelDoor, Named, Synced, _apply, _tree

GARBAGE = b"\xa5"


@dataclass(frozen=True)
class Changed:
    """Bytes were written at a place (or the file was cut there, if `data` is None)."""

    inode: int
    offset: int
    data: bytes | None

    def to(self, content: bytes) -> bytes:
        if self.data is None:
            return content[: self.offset].ljust(self.offset, b"\0")
        padded = content.ljust(self.offset, b"\0")
        return padded[: self.offset] + self.data + padded[self.offset + len(self.data) :]


class LogModelDoor(ModelDoor):
    """A door to such a disk, for one process at a time."""

    def _change(self, inode, offset, data):
        change = Changed(inode, offset, data)
        self.content[inode] = change.to(self.content[inode])
        self._note(change)

    def write(self, descriptor, data):
        self._change(descriptor, len(self.content[descriptor]), bytes(data))
        return len(data)

    def write_at(self, descriptor, data, offset):
        self._change(descriptor, offset, bytes(data))
        return len(data)

    def reserve(self, descriptor, offset, size):
        self._change(descriptor, len(self.content[descriptor]), bytes(min(size, 300)))

    def truncate(self, descriptor, size):
        if len(self.content[descriptor]) != size:
            self._change(descriptor, size, None)

    def sync_data(self, descriptor):
        if "sync_data" not in self.forgets:
            self._note(Synced(descriptor))

    def open(self, path):
        return self._inode(path)

    def size(self, descriptor):
        return len(self.content[descriptor])

    def rename(self, source, target):
        inode = self._inode(source)
        if target.name not in self.names[str(target.parent)]:
            self._name(target, inode)
        self.unlink(source)

    def lock(self, path, *, shared):
        if path.name not in self.names[str(path.parent)]:
            assert not shared
            self.create(path)
        return -2

    def unlock(self, descriptor):
        pass

    def after_power_cut(self, cut):
        """Every tree that may be on the disk if the power is cut after the first `cut` records."""
        names, content, pending, changes = self._durable_at(cut)
        trees = {}
        for choice in product((False, True), repeat=len(pending)):
            kept = {folder: dict(entries) for folder, entries in names.items()}
            for change, keep in zip(pending, choice, strict=True):
                if keep:
                    _apply(kept, change)
            for variant in _contents(content, changes):
                tree = _tree(kept, variant)
                trees[repr(sorted(tree.items()))] = tree
        return list(trees.values())

    def _durable_at(self, cut):
        names = {folder: dict(entries) for folder, entries in self.planted[0].items()}
        content = dict(self.planted[1])
        pending, changes = [], {}
        for record in self.log[:cut]:
            match record:
                case Named(_, _, inode):
                    pending.append(record)
                    if inode is not None and inode != FOLDER:
                        content.setdefault(inode, b"")
                case Changed(inode):
                    changes.setdefault(inode, []).append(record)
                case Synced(inode):
                    for change in changes.pop(inode, []):
                        content[inode] = change.to(content[inode])
                case FolderSynced(folder):
                    for change in pending:
                        if change.folder == folder:
                            _apply(names, change)
                    pending = [change for change in pending if change.folder != folder]
        return names, content, pending, changes


def _contents(durable, changes):
    inodes = list(changes)
    variants = [list(dict.fromkeys(_variants(durable[inode], changes[inode]))) for inode in inodes]
    if len(inodes) > 1:
        variants = [each[:3] for each in variants]
    for choice in product(*variants):
        yield {**durable, **dict(zip(inodes, choice, strict=True))}


def _variants(before, changes):
    """Nothing, all, each prefix, the last alone, and all with one of them half written or turned into garbage."""
    yield before
    yield _all(before, changes)
    for count in range(1, len(changes)):
        yield _all(before, changes[:count])
    yield _all(before, changes[-1:])
    for place, change in enumerate(changes):
        if change.data:
            half = Changed(change.inode, change.offset, change.data[: len(change.data) // 2])
            spoilt = Changed(change.inode, change.offset, GARBAGE * len(change.data))
            for worse in (half, spoilt):
                yield _all(before, [*changes[:place], worse, *changes[place + 1 :]])


def _all(content, changes):
    for change in changes:
        content = change.to(content)
    return content

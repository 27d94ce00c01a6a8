"""Who uses a local store, so that one that nobody uses is looked through before anybody reads it.

Every process that has a store open holds a shared lock on the file `users` beside it; the kernel lets it go when the
process dies, however it dies. Who finds nobody else there takes the lock for itself first and looks through the store
(`storecheck.py`), while others wait. So a store is looked through once for each time that it lay still, not once for
each worker that is killed and comes again; whatever killed the last of its users is found before the next one maps it.

Whoever writes to a store notes in the same file when the store's file was changed last. A file that was changed since
by anybody else is looked through again when a task next asks for it, while nobody may write to it.

A store that is damaged is set aside under its own name and `.damaged`, in the place of an older one, and a new one is
begun: it is only a copy, and is rebuilt from the checkpoint.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import struct
from contextlib import suppress
from pathlib import Path

from millpond.clock import SystemClock
from millpond.state.local.ownfolders import make_private
from millpond.state.local.storecheck import DATA, LOCK, damage_in

USERS = "users"
DAMAGED_MARK = "damaged"
"""A file that a reader leaves who found an entry damaged: the store is set aside when nobody uses it any more."""

ASIDE = ".damaged"

_LOG = logging.getLogger("millpond")


_CHANGED = struct.Struct("<QQ")

TOUCHED_LOOKS, TOUCHED_PAUSE_S = 4, 0.005
"""How often, and after which pauses, a file is looked at again that somebody seems to have changed."""

_CLOCK = SystemClock()


class StoreUse:
    """The use of a store by this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.alone = False
        """Whether nobody else used it when we began to."""
        while True:
            make_private(path)
            strange = _strange_in(path)
            if strange is not None:
                set_aside(path, strange)
                continue
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._held = os.open(path / USERS, flags, 0o600)
            try:
                if self._is_taken():
                    return
            except BaseException:
                os.close(self._held)
                raise
            os.close(self._held)

    def _is_taken(self) -> bool:
        """Take the lock, alone if nobody else has it; False if the store was set aside meanwhile."""
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.alone = False
            fcntl.flock(self._held, fcntl.LOCK_SH)
            # Others go on with the one that is set aside until they open it again, and then find it gone.
            found = _noted_damage(self.path) or self._damage_by_strangers()
        else:
            self.alone = True
            found = _noted_damage(self.path) or damage_in(self.path)
        if not self._is_named():
            return False
        if found is None:
            fcntl.flock(self._held, fcntl.LOCK_SH)
            return True
        set_aside(self.path, found)
        return False

    def is_over(self) -> bool:
        """Return whether the store must be opened again: it is gone, or was set aside, or shall be."""
        return not self._is_named() or os.path.lexists(self.path / DAMAGED_MARK)

    def _is_named(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._held), os.lstat(self.path / USERS))
        except FileNotFoundError:
            return False

    def is_changing(self) -> bool:
        """Return whether the store's file was changed and nobody notes it for a while, as those do who write to it."""
        for _ in range(TOUCHED_LOOKS):
            if not self.was_touched():
                return False
            _CLOCK.sleep(TOUCHED_PAUSE_S)
        return self.was_touched()

    def _damage_by_strangers(self) -> str | None:
        """Return what is wrong with a store that others use, if somebody changed its file besides them."""
        if not self.is_changing():
            return None
        found = damage_in(self.path)
        if found is not None and self.is_changing():
            # Looked at twice: the first look may have been while somebody wrote.
            found = damage_in(self.path)
        if found is None:
            self.note_written()
        return found

    def note_written(self) -> None:
        """Remember how the store's file is now, after we have changed it or looked through it."""
        # On a full disk it is not noted, and the next look at the store is a long one.
        with suppress(OSError):
            os.pwrite(self._held, self._state(), 0)

    def was_touched(self) -> bool:
        """Return whether the store's file was changed by somebody who did not note it, or is being changed now."""
        return os.pread(self._held, _CHANGED.size, 0) != self._state()

    def is_short(self, last_page: int, page_bytes: int) -> bool:
        """Return whether the store's file is shorter than what LMDB may read of it."""
        return size_of(self.path / DATA) < (last_page + 1) * page_bytes

    def _state(self) -> bytes:
        try:
            found = os.stat(self.path / DATA)  # noqa: PTH116 - many times in an epoch
        except OSError:
            return b""
        return _CHANGED.pack(found.st_mtime_ns, found.st_size)

    def close(self) -> None:
        """Use it no more."""
        os.close(self._held)


def size_of(path: Path) -> int:
    """Return how long a file is; nothing if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def set_aside(path: Path, found: str) -> None:
    """Move a store out of the way, and say so."""
    aside = path.with_name(path.name + ASIDE)
    with suppress(OSError):
        # A folder can't take the place of anything else.
        aside.unlink()
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        path.rename(aside)
    _LOG.warning(
        "the local store %s is damaged (%s): it is set aside as %s, and rebuilt from the checkpoint", path, found, aside
    )


def mark_damaged(path: Path, found: str) -> None:
    """Leave word that a store is damaged, for whoever opens it next."""
    with suppress(OSError):
        (path / DAMAGED_MARK).write_text(found, encoding="utf-8")


def _strange_in(path: Path) -> str | None:
    """Return what in the folder of a store is no plain file, so that opening it could lead elsewhere or never end."""
    for name in (DATA, LOCK, USERS, DAMAGED_MARK):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(path / name).st_mode):
                return f"something that is no file in the place of {name}"
    return None


def _noted_damage(path: Path) -> str | None:
    try:
        return (path / DAMAGED_MARK).read_text(encoding="utf-8", errors="replace")[:200] or "no reason given"
    except FileNotFoundError:
        return None

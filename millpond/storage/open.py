"""From a checkpoint's address to its storage.

Each kind of storage that keeps files opens its own folders and new ones, and no others: a folder of another kind would
look empty, and a job would begin anew in it. So before a folder is opened, a look at the names in it tells whose it is.
Nothing is read, and nothing is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from enum import Enum
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from millpond.errors import StorageError
from millpond.storage.addresses import identity_of, shown_url
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.elements import SCHEME as ELEMENTS
from millpond.storage.composed.elements import open_elements, read_wishes
from millpond.storage.composed.layered import layered
from millpond.storage.composed.spread import MARK as SPREAD_MARK
from millpond.storage.composed.spread import SCHEME as SPREAD
from millpond.storage.composed.spread import open_spread, read_roots
from millpond.storage.contract import Storage, Witnessed, is_name
from millpond.storage.door import Door, EntryKind, coded, usual_door

ENTRY_POINTS = "millpond.storage"
"""The group of entry points by which a package adds a kind of storage: the name is the scheme."""

Opener = Callable[[str], Storage]
"""Opens a storage by its whole address; raises a `StorageError` if it can't."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")

_MISTYPED = re.compile(
    r".*://|(?![/.~])(?:[^/]*:/?[^/]*@|[^/]*//.*@|[^/]*[:;,] ?//|[^/]*@[^/]*:[0-9]+(?:/|$))", re.DOTALL
)
"""A user and a password, or what stands before a host, in something that does not begin as a path does; or an address
inside of a path, as a wrong mark between two of them leaves it."""

_added: dict[str, Opener] = {}


def open_storage(url: str) -> Storage:
    """Open the storage at a plain path or an address; a worker opens the driver's storage by its `url`.

    A folder that another kind of storage made is refused before anything in it is read (MP358).
    """
    folder = folder_of(url)
    if folder is not None:
        refuse_part_of_spread(folder)
    return _open(url)


def folder_of(url: str) -> Path | None:
    """Return the folder on this machine in which the storage at an address keeps its files; None if it keeps none."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        return Path(url).absolute() if is_plain_path(url) else None
    if scheme[1].lower() not in _LAYOUTS:
        return None
    try:
        path = _local_path(urlsplit(url))
    except ValueError:
        return None
    return None if path is None else Path(path).absolute()


def _is_path(text: str) -> bool:
    """Say whether a file system can have such a path at all."""
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_plain_path(text: str) -> bool:
    """Say whether an address without a scheme is a path, and not one with a mistyped scheme.

    No folder is made of that.
    """
    return _is_path(text) and _MISTYPED.match(text) is None and _MISTYPED.match(unquote(text)) is None


def _open(url: str) -> Storage:
    scheme = _SCHEME.match(url)
    folder = folder_of(url)
    if folder is not None:
        refuse_other_layouts(folder, _LAYOUTS[scheme[1].lower() if scheme else "file"])
    if scheme is None:
        storage: Storage | None = FileStorage(url) if is_plain_path(url) else None
    else:
        storage = _open_address(scheme[1].lower(), url)
    if storage is None:
        raise _unknown(url)
    return layered(storage, open_storage) if forks(url) else storage


def forks(url: str) -> bool:
    """Say whether a fork can be kept at this address.

    To look for its base at a server would cost every opening a call.
    """
    scheme = _SCHEME.match(url)
    return scheme is None or scheme[1].lower() in _FORKS


def holds_password(url: str) -> bool:
    """Say whether an address tells a user or a password, so that it must not be written down."""
    return any(folder_of(root) is None and identity_of(root) != root for root in roots_of(url))


def roots_of(url: str) -> list[str]:
    """Return the addresses of all roots of a storage that has several; else its own."""
    scheme = url.partition("://")[0].lower()
    if scheme == SPREAD:
        return [root for _, root in read_roots(url)]
    return [wish.address for wish in read_wishes(url)] if scheme == ELEMENTS else [url]


def accept_rollback(url: str) -> None:
    """Take what each root of a storage holds for all that there is: on the user's word, that something may be lost."""
    for root in roots_of(url):
        scheme = _SCHEME.match(root)
        # Not opened as a whole, for that would look into it.
        storage: object = None if scheme is None else _open_address(scheme[1].lower(), root)
        if isinstance(storage, Witnessed):
            storage.accept_rollback()


def register_backend(scheme: str, opener: Opener) -> None:
    """Add a kind of storage in this process; a package that tasks shall find too declares an entry point instead."""
    taken = (*_OPENERS, SPREAD, ELEMENTS)
    if scheme in taken or _SCHEME.fullmatch(f"{scheme}:") is None or scheme != scheme.lower():
        raise StorageError(
            "MP340",
            "this can't be the scheme of a new kind of storage",
            expected=f"letters in lower case, other than {', '.join(taken)}",
            found=ascii(scheme),
        )
    _added[scheme] = opener


def opens_elsewhere(url: str) -> bool:
    """Say whether a new process opens the same storage by this address; what this one registered, no other knows."""
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme[1].lower() in {SPREAD, ELEMENTS}:
        return all(map(opens_elsewhere, roots_of(url)))
    return scheme is None or (scheme[1].lower() in _OPENERS and scheme[1].lower() != "memory")


def _open_address(scheme: str, url: str) -> Storage | None:
    if scheme == SPREAD:
        return open_spread(url, _open)
    if scheme == ELEMENTS:
        return open_elements(url, _open)
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        return None
    if parts.fragment or not _is_path(unquote(url)):
        return None
    opener = _OPENERS.get(scheme)
    if opener is not None:
        return opener(parts, options)
    if scheme in _added:
        return _added[scheme](url)
    for entry in entry_points(group=ENTRY_POINTS, name=scheme):
        added: Opener = entry.load()
        return added(url)
    return None


def _local_path(parts: SplitResult) -> str | None:
    """Return the path of an address on this machine, as `file:///data/recs` has it.

    None if it may be a mistyped address.
    """
    path = unquote(parts.path, errors="surrogateescape")
    return path if parts.netloc in {"", "localhost"} and is_plain_path(path) else None


def _open_files(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    path = _local_path(parts)
    return FileStorage(path) if path and not options else None


def _open_log(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.log.log import shared_log

    path = _local_path(parts)
    return shared_log(Path(path)) if path and not options else None


def _open_per_key(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.perkey import PerKeyStorage

    path = _local_path(parts)
    return PerKeyStorage(path) if path and not options else None


def _refuse_faithful(parts: SplitResult, _options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.perkey import not_for_checkpoints

    raise not_for_checkpoints(parts.geturl())


def _open_rocks(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.rocks import RocksStorage

    path, owner = _local_path(parts), options.pop("owner", "turns")
    if not path or options or owner not in {"one", "turns"}:
        return None
    return RocksStorage(path, one_owner=owner == "one")


def _open_memory(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.memory import open_memory

    process = options.pop("process", "")
    fits = is_name(parts.netloc) and not parts.path and not options
    return open_memory(parts.netloc, process) if fits else None


def _open_unsynced(_parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.composed.unsynced import SCHEME, UnsyncedPuts, UnsyncedStorage

    kept, folder, puts = (options.pop(name, "") for name in ("kept", "folder", "puts"))
    if not kept or not folder or options or puts not in {"", SCHEME}:
        return None
    return (UnsyncedPuts if puts else UnsyncedStorage)(open_storage(kept), folder)


def _open_redis(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.redis import RedisStorage, read_place

    place = read_place(parts, options)
    return None if place is None else RedisStorage(place, parts.geturl())


def _open_objects(parts: SplitResult, options: dict[str, str]) -> Storage | None:
    from millpond.storage.backends.objects import ObjectStorage, read_place

    place = read_place(parts, options)
    return None if place is None else ObjectStorage(place)


_OPENERS: dict[str, Callable[[SplitResult, dict[str, str]], Storage | None]] = {
    "file": _open_files,
    "log": _open_log,
    "perkey": _open_per_key,
    "perkey+faithful": _refuse_faithful,
    "memory": _open_memory,
    "near": _open_unsynced,
    "rocksdb": _open_rocks,
    "redis": _open_redis,
    "rediss": _open_redis,
    "s3": _open_objects,
    "gs": _open_objects,
    "az": _open_objects,
}


_FORKS = frozenset({"file", "log", "perkey", "memory"})


def _unknown(url: str) -> StorageError:
    return StorageError(
        "MP311",
        "can't open a storage at this address",
        expected="a path (/data/recs), file:///data/recs, log:///data/recs, s3://bucket/recs, gs://bucket/recs, "
        "az://container/recs, redis://host:6379/0/recs, rocksdb:///data/recs, perkey:///data/recs, "
        "spread:///disk1/recs|/disk2/recs or elements:///data/recs|clicks=log:///fast/recs",
        found=ascii(shown_url(url))[:120],
        hint="docs/BACKENDS.md says what each kind takes, and how to write one",
    )


class Layout(Enum):
    """The kinds of storage that keep files in a folder; the value is how their addresses begin."""

    FILES = ""
    LOG = "log://"
    PER_KEY = "perkey://"
    ROCKS = "rocksdb://"


_LAYOUTS = {"file": Layout.FILES, "log": Layout.LOG, "perkey": Layout.PER_KEY, "rocksdb": Layout.ROCKS}

_FOLDERS = frozenset({"manifests", "deltas", "snapshots", "retired", "savepoints"})
"""Folders of a plain checkpoint; other kinds have the same names in files of their own."""

_PER_KEY = re.compile(rf"(?:{'|'.join(sorted(_FOLDERS))})=2F.*", re.DOTALL)
_LOG = re.compile(r"log-\d{10}|index-\d{10}-\d{16}|witness")
_LOG_LOCK = "lock"
_ROCKS_TURN, _ROCKS_DATABASE = "turn", "db"


def refuse_other_layouts(root: str | Path, own: Layout, door: Door | None = None) -> None:
    """Raise MP358 if a folder was made by another kind of storage, also if by its own kind too."""
    path = Path(root).absolute()
    looks = _Looks(path, door or usual_door())
    found = [layout for layout in Layout if layout is not own and looks.like(layout)]
    if found:
        raise _other(path, _WORDS[own], " and of ".join(_WORDS[layout] for layout in found), f"{found[0].value}{path}")


def refuse_part_of_spread(root: str | Path, door: Door | None = None) -> None:
    """Raise MP358 if a folder is a part of a spread storage: most of a checkpoint is elsewhere then."""
    path = Path(root).absolute()
    if _Looks(path, door or usual_door()).kind(SPREAD_MARK) is EntryKind.FILE:
        raise _other(path, "a checkpoint of its own", "a root of a spread storage", "spread:// and all roots of it")


class _Looks:
    """What a look at a folder tells."""

    def __init__(self, path: Path, door: Door) -> None:
        self._path = path
        self._door = door

    def like(self, layout: Layout) -> bool:
        """Say whether a folder looks as if a kind of storage had made it."""
        match layout:
            case Layout.FILES:
                return any(self.kind(name) is EntryKind.FOLDER for name in _FOLDERS)
            case Layout.LOG:
                # Looked up first: a folder with a file for each key is long to list.
                return self.kind(_LOG_LOCK) is EntryKind.FILE and any(map(_LOG.fullmatch, self.names()))
            case Layout.PER_KEY:
                return any(map(_PER_KEY.fullmatch, self.names()))
            case Layout.ROCKS:
                folder = self.kind(_ROCKS_DATABASE) is EntryKind.FOLDER
                return folder and self.kind(_ROCKS_TURN) is EntryKind.FILE

    def kind(self, name: str) -> EntryKind | None:
        """Return what stands under a name in the folder; None if nothing does."""
        with coded("look up", name):
            entry = self._door.entry(self._path / name)
        return None if entry is None else entry.kind

    def names(self) -> Collection[str]:
        """Return the names in the folder; none if there is no folder."""
        try:
            with coded("list", str(self._path), (FileNotFoundError, NotADirectoryError)):
                return self._door.listdir(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return ()


_WORDS = {
    Layout.FILES: "a plain folder with one file per name",
    Layout.LOG: "a log",
    Layout.PER_KEY: "one file per key",
    Layout.ROCKS: "a RocksDB database",
}


def _other(path: Path, own: str, found: str, address: str) -> StorageError:
    return StorageError(
        "MP358",
        f"{path} was made by another kind of storage",
        expected=f"a new folder, or the layout of {own}",
        found=f"the layout of {found}",
        hint=f"open it by the address that it was made with: {address}; nothing was read or written",
    )

"""Storage spread over several roots: files named by their content go to disks or buckets by weight, the rest to one.

`spread://2*/disk1/recs|1*/disk2/recs|s3://bucket/recs`: roots are addresses of any other kind, joined by `|`, each with
a weight before it (1 if none is said). Where a root's address needs a `|` itself, it is quoted as `%7C`.

The first root is the home of all that must be listed or fenced: genesis, manifests, and whatever else is not named by
40 hex digits. A file that is named by its content goes to the root that its name and the weights choose (rendezvous
hashing), so a new root takes its share of new files from all others, and no file has to move. Reading tries the root
of choice first and then the others, since roots and weights may have been others when the file was written.

What a lost root looks like: an empty folder, where a disk is not mounted. So each root bears a mark with the identity
of the whole, and the home remembers who has one. A root that had a mark and has none, or another one's, is an error
that names it (MP353, MP354), before anything is written to it and when a file is not found; never an empty state.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millpond.crashpoints import crashpoint
from millpond.errors import MissingError, StorageError
from millpond.storage.addresses import identity_of, shown_url
from millpond.storage.content import NAME_DIGITS
from millpond.storage.contract import COMMITS, Names, PutOutcome, Storage, check_name, folder_url, missing

SCHEME = "spread"
SEPARATOR = "|"
WEIGHT_MAX = 1_000_000

IDENTITY = "spread-identity"
"""In the home: what all marks say."""

MARK = "spread-mark"
"""In every other root."""

MARKED = "spread-marked"
"""The folder in the home that remembers which roots bear a mark, each under a hash of its address."""

_BY_CONTENT = re.compile(rf"(.*/)?[0-9a-f]{{{NAME_DIGITS}}}")
_ROOT = re.compile(r"(?:(\d{1,9})\*)?(?!\d+\*)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Root:
    """A part of the whole: its storage, how much it takes, and what hashing knows it by (`addresses.identity_of`)."""

    storage: Storage
    weight: int
    known_as: str

    @property
    def shown(self) -> str:
        """The root's address as people may see it."""
        return shown_url(self.known_as)

    @property
    def address(self) -> str:
        """The root's own address, in a form that can stand between others."""
        url = self.storage.url
        # Only a plain path can hold one: addresses were quoted when they were given.
        return folder_url("file", Path(url)) if SEPARATOR in url else url


class SpreadStorage:
    """A storage over several roots; the first is the home of names that are not hashes of content."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(roots)
        self._home = roots[0].storage
        self._ready: set[str] = set()
        self._process = 0

    def __repr__(self) -> str:
        return f"SpreadStorage({', '.join(root.shown for root in self._roots)})"

    @property
    def url(self) -> str:
        """The address with all roots, and with their passwords: for other processes, not for people."""
        return f"{SCHEME}://" + SEPARATOR.join(f"{root.weight}*{root.address}" for root in self._roots)

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return, in the root that the name chooses."""
        check_name(name)
        root = self._ranked(name)[0]
        self._make_ready(root)
        return root.storage.put(name, data)

    def get(self, name: str) -> bytes:
        """Return the bytes under a name, from whichever root has them."""
        check_name(name)
        for root in self._ranked(name):
            with suppress(MissingError):
                return root.storage.get(name)
        raise self._why_missing(name)

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name in any root."""
        check_name(name)
        if any(root.storage.contains(name) for root in self._ranked(name)):
            return True
        if not self._ready:
            # A home that is lost has nothing: that must not be taken for a storage in which nothing was put yet.
            self._refuse_lost_home()
        return False

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder in all roots, sorted; marks are not told."""
        if prefix:
            check_name(prefix)
        roots = self._roots[:1] if f"{prefix}/".startswith(COMMITS) else self._roots
        names = {name for root in roots for name in root.storage.list(prefix)}
        return sorted(name for name in names if not _is_ours(name))

    def delete(self, name: str) -> None:
        """Take a name away wherever it is."""
        check_name(name)
        for root in self._ranked(name):
            root.storage.delete(name)

    def close(self) -> None:
        """Close the roots that can be closed."""
        for root in self._roots:
            closing = getattr(root.storage, "close", None)
            if closing is not None:
                closing()

    def _ranked(self, name: str) -> Sequence[Root]:
        """Return the roots that may hold a name, the one of choice first."""
        if not is_by_content(name):
            return self._roots[:1]
        return sorted(self._roots, key=lambda root: rendezvous(root.known_as, root.weight, name), reverse=True)

    def _make_ready(self, root: Root) -> None:
        """See once in this process that a root is the one that it was; a new one gets its mark."""
        if self._process != os.getpid():
            self._ready, self._process = set(), os.getpid()
        if root.known_as in self._ready:
            return
        identity = self._identity()
        if root.storage is not self._home:
            self._check_mark(root, identity)
            root.storage.put(MARK, identity)
            crashpoint("spread.marked")
            # After the mark: a root that is remembered and bears none was lost.
            self._home.put(_remembered(root), os.fsencode(root.known_as))
            crashpoint("spread.remembered")
        self._ready.add(root.known_as)

    def _identity(self) -> bytes:
        if self._refuse_lost_home():
            self._home.put(IDENTITY, uuid.uuid4().hex.encode())
            crashpoint("spread.identified")
        return self._home.get(IDENTITY)

    def _refuse_lost_home(self) -> bool:
        """Refuse a home that has no identity although other roots bear marks; say if it has none."""
        if self._home.contains(IDENTITY):
            return False
        for root in self._roots[1:]:
            if root.storage.contains(MARK):
                raise _lost(self._roots[0], f"{root.shown} bears a mark, of a home that is lost or of another one")
        return True

    def _check_mark(self, root: Root, identity: bytes) -> None:
        if root.storage.contains(MARK):
            found = root.storage.get(MARK)
            if found != identity:
                raise _foreign(root, identity, found)
        elif self._home.contains(_remembered(root)):
            raise _lost(root, "no mark where there was one")

    def _why_missing(self, name: str) -> StorageError:
        """Return the error for a name that no root has.

        One of them is lost or left out, or the file itself is missing.
        """
        if len(self._ranked(name)) > 1 and self._home.contains(IDENTITY):
            identity = self._home.get(IDENTITY)
            for root in self._roots[1:]:
                self._check_mark(root, identity)
            known = {_remembered(root) for root in self._roots}
            for mark in self._home.list(MARKED):
                if mark not in known:
                    return _left_out(name, shown_url(self._home.get(mark).decode(errors="replace")))
        return missing(name, ", ".join(root.shown for root in self._roots))


def is_by_content(name: str) -> bool:
    """Say whether a file is named by its content, so that it may lie in any root."""
    return not name.startswith(COMMITS) and _BY_CONTENT.fullmatch(name) is not None


def rendezvous(root: str, weight: int, name: str) -> float:
    """Say how much a name wants to be in a root: of all roots, the one with the largest number gets it.

    Each root wins with a probability of its share of all weights, whatever the others are.
    """
    digest = hashlib.blake2b(name.encode(), key=hashlib.sha256(os.fsencode(root)).digest(), digest_size=8).digest()
    return -weight / math.log((int.from_bytes(digest, "big") + 0.5) / 2**64)


def open_spread(url: str, open_root: Callable[[str], Storage]) -> SpreadStorage:
    """Open all roots of an address, each by its own."""
    roots: list[Root] = []
    for weight, address in read_roots(url):
        storage = open_root(address)
        roots.append(Root(storage, weight, identity_of(storage.url)))
    if len({root.known_as for root in roots}) != len(roots):
        raise _no_roots("each root once", url)
    return SpreadStorage(roots)


def read_roots(url: str) -> list[tuple[int, str]]:
    """Return the weights and addresses of an address like spread://2*/disk1/recs|/disk2/recs."""
    return list(_roots_in(url))


def _roots_in(url: str) -> Iterator[tuple[int, str]]:
    scheme, _, rest = url.partition("://")
    if scheme.lower() != SCHEME:
        raise _no_roots(f"{SCHEME}:// and then the roots", url)
    for part in rest.split(SEPARATOR):
        found = _ROOT.fullmatch(part)
        if found is None:
            raise _no_roots("an address in every place", url)
        weight, address = int(found[1] or 1), found[2]
        if not 1 <= weight <= WEIGHT_MAX:
            raise _no_roots(f"weights of 1 to {WEIGHT_MAX:,}", url)
        if address.lower().startswith((f"{SCHEME}:", "elements:")):
            raise _no_roots("roots that are not spread themselves", url)
        yield weight, address


def _is_ours(name: str) -> bool:
    return name in {IDENTITY, MARK} or name.startswith(f"{MARKED}/")


def _remembered(root: Root) -> str:
    return f"{MARKED}/{hashlib.sha256(os.fsencode(root.known_as)).hexdigest()[:32]}"


def _no_roots(expected: str, url: str) -> StorageError:
    return StorageError(
        "MP352",
        "this is not the address of a spread storage",
        expected=expected,
        found=ascii(shown_url(url))[:200],
        hint="spread://2*/disk1/recs|1*/disk2/recs: any addresses, joined by |, each with its weight and * before it",
    )


def _lost(root: Root, found: str) -> StorageError:
    return StorageError(
        "MP353",
        f"a root of the spread storage is lost: {root.shown}",
        expected="the root as it was, with the mark that was put there",
        found=found,
        hint="is its disk mounted? else restore it from a copy; what it held is nowhere else",
    )


def _foreign(root: Root, identity: bytes, found: bytes) -> StorageError:
    return StorageError(
        "MP354",
        f"a root belongs to another spread storage: {root.shown}",
        expected=f"a root without a mark, or with the mark {identity.decode(errors='replace')}",
        found=f"the mark {found.decode(errors='replace')[:80]}",
        hint="give each spread storage folders of its own; if its first root was replaced, bring the old one back",
    )


def _left_out(name: str, root: str) -> StorageError:
    return StorageError(
        "MP355",
        f"{name} is in none of the roots that the address names",
        expected=f"the address to name {root} too, where files were put before",
        hint="add the root again; a root can be taken away when its files are copied to another one",
    )

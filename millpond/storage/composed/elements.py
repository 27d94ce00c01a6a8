"""Storage chosen by state element: the files of some elements go to roots of their own, all else to one home.

`elements:///data/recs|ratings,films=s3://bucket/recs|clicks=log:///fast/recs`: first the home, then roots, each with
the elements whose files go there; all are addresses of any other kind, and a `|` inside one is `%7C`. A root without
elements takes nothing more, and is still read.

Placing is a wish and never a promise that anything depends on: whoever writes state divides it by element and asks
`at` for the place, and whoever reads a file looks for it in all roots, since places may have been others when it was
written. Genesis, manifests and whatever else is not state are at home, as those of a spread storage are, and roots bear
the same marks, so that a lost one is told (`storage/composed/spread.py`).

In a checkpoint, elements have numbers. Who opens it says which (`know`), and from then on they are in the address too,
so that tasks and merges in the background, which open the storage by it, place as the driver does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from millpond.errors import MissingError, StorageError
from millpond.storage.addresses import identity_of, shown_url
from millpond.storage.composed.spread import SCHEME as SPREAD
from millpond.storage.composed.spread import SEPARATOR, Root, SpreadStorage, is_by_content
from millpond.storage.contract import Names, PutOutcome, Storage, bottom, check_name

SCHEME = "elements"

_ELEMENTS = re.compile(r"([^\W\d]\w*(?:,[^\W\d]\w*)*)(?::([0-9]+(?:,[0-9]+)*))?=")
_INDEX_MAX = 255


@dataclass(frozen=True, slots=True)
class Wish:
    """What an address says of one root: its own address, the elements that go there, and their numbers if known."""

    address: str
    names: tuple[str, ...] = ()
    indexes: tuple[int, ...] = ()


class ElementsStorage(SpreadStorage):
    """A home, and other roots for the files of some elements."""

    def __init__(self, roots: Sequence[Root], wishes: Sequence[Wish]) -> None:
        super().__init__(roots)
        self._names = {name: root for root, wish in zip(roots, wishes, strict=True) for name in wish.names}
        self._indexes = {index: root for root, wish in zip(roots, wishes, strict=True) for index in wish.indexes}

    def __repr__(self) -> str:
        return f"ElementsStorage({', '.join(root.shown for root in self._roots)})"

    @property
    def url(self) -> str:
        """The address with all roots, their elements and what is known of these; with passwords, so not for people."""
        return f"{SCHEME}://{SEPARATOR.join(map(self._wish_of, self._roots))}"

    @property
    def names(self) -> tuple[str, ...]:
        """The elements that the address names."""
        return tuple(sorted(self._names))

    def know(self, elements: Sequence[str | None]) -> None:
        """Take up which number each element has; what belongs to a handler (`over.due`) goes with it."""
        owners = [self._names.get((name or "").partition(".")[0]) for name in elements]
        self._indexes = {index: root for index, root in enumerate(owners) if root is not None}

    def at(self, index: int) -> Storage:
        """Return the storage for files of the element with this number; equal for elements that share a place."""
        root = self._indexes.get(index)
        return self if root is None or root is self._roots[0] else PlacedStorage(self, root)

    def unplaced(self) -> ElementsStorage:
        """Return the same roots, where every element goes home."""
        return ElementsStorage(self._roots, [Wish(root.address) for root in self._roots])

    def put_at(self, root: Root, name: str, data: bytes) -> PutOutcome:
        """Store a file that is named by its content in one of the roots."""
        if not is_by_content(check_name(name)):
            return self.put(name, data)
        self._make_ready(root)
        return root.storage.put(name, data)

    def _ranked(self, name: str) -> Sequence[Root]:
        return self._roots if is_by_content(name) else self._roots[:1]

    def _wish_of(self, root: Root) -> str:
        names = ",".join(sorted(name for name, own in self._names.items() if own is root))
        indexes = ",".join(str(index) for index, own in sorted(self._indexes.items()) if own is root)
        wish = names + (f":{indexes}" if names and indexes else "")
        return f"{wish}={root.address}" if wish else root.address


@dataclass(frozen=True)
class PlacedStorage:
    """The whole storage, as it is for some elements: their files are put into their root, and looked up there first."""

    whole: ElementsStorage
    root: Root

    @property
    def url(self) -> str:
        """The address of the whole."""
        return self.whole.url

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` in the root, if its name is that of its content."""
        return self.whole.put_at(self.root, name, data)

    def get(self, name: str) -> bytes:
        """Return the bytes under a name, from whichever root has them."""
        if is_by_content(check_name(name)):
            with suppress(MissingError):
                return self.root.storage.get(name)
        return self.whole.get(name)

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name in any root."""
        return self.whole.contains(name)

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder in all roots, sorted."""
        return self.whole.list(prefix)

    def delete(self, name: str) -> None:
        """Take a name away wherever it is."""
        self.whole.delete(name)


def open_elements(url: str, open_root: Callable[[str], Storage]) -> ElementsStorage:
    """Open all roots of an address, each by its own."""
    wishes = read_wishes(url)
    storages = [open_root(wish.address) for wish in wishes]
    roots = [Root(storage, 1, identity_of(storage.url)) for storage in storages]
    if len({root.known_as for root in roots}) != len(roots):
        raise _no_elements("each root once, with all its elements before it", url)
    return ElementsStorage(roots, wishes)


def read_wishes(url: str) -> list[Wish]:
    """Return what an address like elements:///data/recs|ratings=s3://bucket/recs says of each root, the home first."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() != SCHEME:
        raise _no_elements(f"{SCHEME}:// and then the roots", url)
    home, *others = rest.split(SEPARATOR)
    wishes = [Wish(home), *(_wish_in(other, url) for other in others)]
    for wish in wishes:
        if not wish.address:
            raise _no_elements("an address in every place", url)
        if wish.address.lower().startswith((f"{SCHEME}:", f"{SPREAD}:")):
            raise _no_elements("roots that are no roots of others", url)
    _check_once((name for wish in wishes for name in wish.names), url)
    _check_once((index for wish in wishes for index in wish.indexes), url)
    return wishes


def _wish_in(part: str, url: str) -> Wish:
    found = _ELEMENTS.match(part)
    if found is None:
        return Wish(part)
    numbers = tuple(int(index[:4]) for index in found[2].split(",")) if found[2] else ()
    if any(number > _INDEX_MAX for number in numbers):
        raise _no_elements(f"numbers of elements up to {_INDEX_MAX}", url)
    return Wish(part[found.end() :], tuple(found[1].split(",")), numbers)


def _check_once(named: Iterable[str | int], url: str) -> None:
    seen: set[str | int] = set()
    for one in named:
        if one in seen:
            raise _no_elements(f"one place for the element {one}", url)
        seen.add(one)


def placing(storage: Storage, indexes: Iterable[int]) -> Iterator[tuple[Storage, frozenset[int]]]:
    """Divide elements by where their files go; the storage itself comes first, also if it has none of them."""
    below = bottom(storage)
    if not isinstance(below, ElementsStorage):
        yield storage, frozenset(indexes)
        return
    places: dict[Storage, set[int]] = {below: set()}
    for index in indexes:
        places.setdefault(below.at(index), set()).add(index)
    yield from ((place, frozenset(own)) for place, own in places.items())


def unplaced(storage: Storage) -> Storage:
    """Return the storage without wishes.

    For files that must be the same ones again, whatever the address says by now.
    """
    return storage.unplaced() if isinstance(storage, ElementsStorage) else storage


def _no_elements(expected: str, url: str) -> StorageError:
    return StorageError(
        "MP359",
        "this is not the address of a storage by elements",
        expected=expected,
        found=ascii(shown_url(url)[:200]),
        hint="elements:///data/recs|ratings=s3://bucket/recs: the home, then addresses, joined by |, each with its "
        "elements and = before it",
    )


def tell_elements(storage: Storage, names: Sequence[str | None]) -> None:
    """Tell a storage that is chosen by element which number each element has; None where one was dropped."""
    below = bottom(storage)
    if isinstance(below, ElementsStorage):
        below.know(names)


def check_elements(storage: Storage, known: Collection[str]) -> None:
    """Refuse an address that gives a place to elements that there are not."""
    below = bottom(storage)
    unknown = set(below.names) - set(known) if isinstance(below, ElementsStorage) else set()
    if unknown:
        raise StorageError(
            "MP360",
            "the checkpoint's address names state elements that the program does not have",
            expected=f"some of {', '.join(sorted(known)) or 'none'}",
            found=", ".join(sorted(unknown)),
            hint="a root that has no element any more stands there without a name and =",
        )

"""Where storages lie, and whether one lies inside another: what is collected in the outer one could be the inner's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from millpond.storage.composed.elements import SCHEME as ELEMENTS
from millpond.storage.composed.layered import LayeredStorage
from millpond.storage.composed.spread import SCHEME as SPREAD
from millpond.storage.contract import Storage
from millpond.storage.open import folder_of, roots_of

Place = tuple[str, PurePosixPath]
"""A machine or a bucket, and a folder there, with no links on the way."""

_OBJECTS = ("s3://", "gs://", "az://")


def places_of(url: str) -> list[Place]:
    """The folders in which the storage at an address keeps its files; none if it keeps them in none."""
    if url.lower().startswith((f"{SPREAD}://", f"{ELEMENTS}://")):
        return [place for root in roots_of(url) for place in places_of(root)]
    folder = folder_of(url)
    if folder is not None:
        return [("", PurePosixPath(os.path.realpath(folder)))]
    if url.lower().startswith(_OBJECTS):
        parts = urlsplit(url)
        return [(f"{parts.scheme}://{parts.netloc}?{parts.query}", PurePosixPath("/", parts.path.strip("/")))]
    return []


def places_behind(storage: Storage) -> list[Place]:
    """The places of a storage and of all its bases."""
    found = places_of(storage.url)
    while isinstance(storage, LayeredStorage):
        storage = storage.behind
        found += places_of(storage.url)
    return found


def overlap(some: Iterable[Place], others: Iterable[Place]) -> bool:
    """Whether one of some places lies inside one of others, or is it, or the other way round."""
    found = list(others)
    return any(
        machine == another and (folder.is_relative_to(outer) or outer.is_relative_to(folder))
        for machine, folder in some
        for another, outer in found
    )

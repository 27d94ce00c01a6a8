"""Making the genesis of a checkpoint, or checking that the one there fits the program."""

from __future__ import annotations

import uuid
from itertools import zip_longest

from millpond.checkpoint.records.manifest import FORMAT, GENESIS_NAME, Elements, ElementSchema, Genesis, encode_genesis
from millpond.checkpoint.recovery import read_genesis
from millpond.clock import Clock
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError
from millpond.ids import ManifestHash
from millpond.keygroups import DEFAULT_INSTANCES, DEFAULT_KEY_GROUPS
from millpond.storage.contract import Storage


def open_genesis(
    storage: Storage, elements: tuple[ElementSchema, ...], key_groups: int | None, instances: int | None, clock: Clock
) -> tuple[Genesis, ManifestHash]:
    """Return the checkpoint's genesis and its hash, made now if there is none; it is durable on return.

    Of several creators one wins, and all use the winner's. Only key groups are fixed for good: the number of instances
    of partial state and the elements can be changed later, and `check_elements` says whether they were.
    """
    there = read_genesis(storage)
    if there is None:
        groups = DEFAULT_KEY_GROUPS if key_groups is None else key_groups
        copies = min(DEFAULT_INSTANCES, groups) if instances is None else instances
        fresh = Genesis(FORMAT, str(uuid.uuid4()), groups, copies, elements, clock.now_ms())
        storage.put(GENESIS_NAME, encode_genesis(fresh))
        crashpoint("checkpoint.created")
        there = read_genesis(storage)
        assert there is not None, "a genesis was put a moment ago"
    else:
        # Its creator may have died before the name was durable; a put of a name that is taken makes it so.
        storage.put(GENESIS_NAME, storage.get(GENESIS_NAME))
    _check_key_groups(there[0].key_groups, key_groups)
    return there


def check_elements(there: Elements, wanted: tuple[ElementSchema, ...]) -> None:
    """Refuse elements that are not just those of the checkpoint: for who opens it without a way to change them."""
    kept = tuple(element for element in there if element is not None)
    if kept == wanted:
        return
    pairs = [(old, new) for old, new in zip_longest(kept, wanted) if old != new]
    raise EpochError(
        "MP401",
        "the program's state elements are not those of the checkpoint",
        expected="; ".join("nothing more" if old is None else str(old) for old, _ in pairs),
        found="; ".join("nothing" if new is None else str(new) for _, new in pairs),
        hint="give the program its old elements in their old order, or use a new checkpoint",
    )


def _check_key_groups(kept: int, wanted: int | None) -> None:
    if wanted is None or wanted == kept:
        return
    raise EpochError(
        "MP402",
        "the number of key groups is fixed when a checkpoint is made",
        expected=str(kept),
        found=str(wanted),
        hint="leave out `key_groups` to use the checkpoint's own, or use a new checkpoint",
    )

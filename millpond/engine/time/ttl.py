"""State that expires, as the tasks of an epoch see it: what was over before, and what stores may drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from millpond.checkpoint.records.manifest import decode_manifest, manifest_hash, manifest_name
from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.records.work import Parent
from millpond.engine.plan import ProgramPlan
from millpond.errors import EpochError
from millpond.ids import ManifestHash
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storekey import store_prefix
from millpond.state.local.storeview import StoreView
from millpond.state.overlay import Base
from millpond.storage.open import open_storage

NEVER_US = -(1 << 63)
"""Before any time that there is."""

Over = Mapping[int, int]
"""By the index of an element, the stamp up to which its entries were over at the parent."""


def expires(plan: ProgramPlan) -> bool:
    """Say whether some element has a time to live."""
    return any(element.ttl is not None for element in plan.program.elements.values())


def over_at(plan: ProgramPlan, parent: Parent) -> Over:
    """Get what was over at the committed parent; nothing for a program without a time to live, which costs nothing."""
    if parent.epoch == 0 or not expires(plan):
        return {}
    return _over_at(plan.storage_url, parent.epoch, parent.hash)


@lru_cache(maxsize=8)
def _over_at(storage_url: str, epoch: int, digest: ManifestHash) -> Over:
    name = manifest_name(epoch)
    data = open_storage(storage_url).get(name)
    if manifest_hash(data) != digest:
        raise EpochError(
            "MP460",
            f"{name} is not the one that the epoch began with",
            expected=f"hash {digest}",
            found=f"hash {manifest_hash(data)}",
            hint="another run put it there, or it came from a copy: restart the job",
        )
    return decode_manifest(data, name).times.over_us


def swept_groups(groups: Sequence[int], epoch: int) -> range:
    """Return the key groups of a partition that are swept after an epoch: one at a time, all in turn."""
    at = groups[epoch % len(groups)] if groups else 0
    return range(at, at + 1 if groups else at)


def find_over(view: Base, over: Over, groups: range) -> list[bytes]:
    """Return the keys of entries in some key groups whose time was over at the parent."""
    return [
        key
        for index in over
        for group in groups
        for key, value in view.scan(store_prefix(index, group))
        if is_over(key, value, over)
    ]


def sweep(store: LocalStore, view: StoreView, over: Over, groups: Sequence[int], epoch: int) -> int:
    """Drop some entries from a local store that can't be seen any more, and say how many.

    Nobody can tell: they are as absent for every epoch after the parent. So nothing is written about it. A store that
    does not hold all key groups yet is left alone, since looking for entries would bring them in.
    """
    if not over or view.stamp is None or view.held is not None:
        return 0
    keys = find_over(view, over, swept_groups(groups, epoch))
    return len(keys) if keys and store.remove(view.stamp, keys) else 0

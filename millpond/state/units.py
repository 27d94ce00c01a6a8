"""The distinct keys of a batch as the store keeps them: encoded, under their key groups, sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.keygroups import hash_ints, hash_texts, stable_hash
from millpond.state.keycodec import KeyCodec
from millpond.state.storekey import PREFIX_BYTES, store_prefix

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoreUnits:
    """Units of one element in store order: `order` tells where each stood, `keys` are their store keys."""

    keys: list[bytes]
    order: Ints
    groups: Ints

    def ranks(self) -> Ints:
        """The place in the store order of each unit, as they were given."""
        ranks = np.empty(len(self.order), dtype=np.int64)
        ranks[self.order] = np.arange(len(self.order))
        return ranks


def in_store_order(element: int, codec: KeyCodec, units: Sequence[Any], key_groups: int) -> StoreUnits:
    """Encode distinct units and sort them as the store does."""
    encoded = codec.encode_ints(units)
    if encoded is not None:
        numbers = np.array(units, dtype=np.int64)
        groups = hash_ints(numbers) % key_groups
        order = np.lexsort((numbers, groups))
        bare = np.empty((len(units), PREFIX_BYTES + encoded.shape[1]), dtype=np.uint8)
        bare[:, 0] = element
        bare[:, 1] = groups >> 8
        bare[:, 2] = groups & 0xFF
        bare[:, PREFIX_BYTES:] = encoded
        fixed: list[bytes] = bare[order].view(f"V{bare.shape[1]}").ravel().tolist()
        return StoreUnits(fixed, order, groups)
    texts = codec.encode_many(units)
    groups = _groups(codec, units, texts, key_groups)
    prefixes = {group: store_prefix(element, group) for group in set(groups.tolist())}
    keys = [prefixes[group] + text for group, text in zip(groups.tolist(), texts, strict=True)]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    return StoreUnits([keys[at] for at in order.tolist()], order, groups)


def _groups(codec: KeyCodec, units: Sequence[Any], texts: list[bytes], key_groups: int) -> Ints:
    if codec.hint in (str, bytes):
        return hash_texts(texts) % key_groups
    return np.fromiter((stable_hash(unit) % key_groups for unit in units), dtype=np.int64, count=len(units))

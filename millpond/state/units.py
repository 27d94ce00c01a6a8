"""The distinct keys of a batch as the store keeps them: encoded, under their key groups, sorted.

>>> placed = in_store_order(0, KeyCodec(int), [7, 3, 5], key_groups=2)
>>> placed.units, placed.ranks().tolist(), placed.groups.tolist()
([5, 3, 7], [2, 1, 0], [1, 1, 0])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.keygroups import hash_ints, hash_texts, stable_hash
from millpond.state.codec.keycodec import KeyCodec, encode_integers
from millpond.state.local.storekey import PREFIX_BYTES, store_prefix

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoreUnits:
    """Units of one element in store order, with their store keys; `order` tells where each stood."""

    units: list[Any]
    keys: list[bytes]
    order: Ints
    groups: Ints

    def ranks(self) -> Ints:
        """Return the place in the store order of each unit, as they were given."""
        ranks = np.empty(len(self.order), dtype=np.int64)
        ranks[self.order] = np.arange(len(self.order))
        return ranks


def in_store_order(element: int, codec: KeyCodec, units: Sequence[Any] | Ints, key_groups: int) -> StoreUnits:
    """Encode distinct units and sort them as the store does; an array of integers costs least."""
    numbers = codec.integers(units)
    if numbers is not None:
        groups = hash_ints(numbers) % key_groups
        order = np.lexsort((numbers, groups))
        ordered = numbers[order]
        return StoreUnits(ordered.tolist(), _integer_keys(element, ordered, groups[order]), order, groups)
    listed = units.tolist() if isinstance(units, np.ndarray) else units
    keys, groups = _other_keys(element, codec, listed, key_groups)
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    return StoreUnits([listed[at] for at in order.tolist()], [keys[at] for at in order.tolist()], order, groups)


def store_keys_of(element: int, codec: KeyCodec, units: Sequence[Any], key_groups: int) -> list[bytes]:
    """Return the store keys of units, as they were given."""
    numbers = codec.integers(units)
    if numbers is not None:
        return _integer_keys(element, numbers, hash_ints(numbers) % key_groups)
    return _other_keys(element, codec, units, key_groups)[0]


def groups_of_units(codec: KeyCodec, units: Sequence[Any] | Ints, key_groups: int) -> Ints:
    """Return the key group of each unit."""
    numbers = codec.integers(units)
    if numbers is not None:
        return hash_ints(numbers) % key_groups
    listed = units.tolist() if isinstance(units, np.ndarray) else units
    return np.fromiter((stable_hash(unit) % key_groups for unit in listed), dtype=np.int64, count=len(listed))


def _integer_keys(element: int, numbers: Ints, groups: Ints) -> list[bytes]:
    encoded = encode_integers(numbers)
    bare = np.empty((len(numbers), PREFIX_BYTES + encoded.shape[1]), dtype=np.uint8)
    bare[:, 0] = element
    bare[:, 1] = groups >> 8
    bare[:, 2] = groups & 0xFF
    bare[:, PREFIX_BYTES:] = encoded
    fixed: list[bytes] = bare.view(f"V{bare.shape[1]}").ravel().tolist()
    return fixed


def _other_keys(element: int, codec: KeyCodec, units: Sequence[Any], key_groups: int) -> tuple[list[bytes], Ints]:
    texts = codec.encode_many(units)
    groups = _groups(codec, units, texts, key_groups)
    prefixes = {group: store_prefix(element, group) for group in set(groups.tolist())}
    return [prefixes[group] + text for group, text in zip(groups.tolist(), texts, strict=True)], groups


def _groups(codec: KeyCodec, units: Sequence[Any], texts: list[bytes], key_groups: int) -> Ints:
    if codec.hint in (str, bytes):
        return hash_texts(texts) % key_groups
    return np.fromiter((stable_hash(unit) % key_groups for unit in units), dtype=np.int64, count=len(units))

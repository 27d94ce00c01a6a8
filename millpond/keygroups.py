"""A stable hash of keys, key groups, and which partition owns which groups.

The hash is defined by 64-bit arithmetic that never overflows and by CRC-32, so that Python, NumPy and Spark SQL compute
the same number (Spark's side is `runtime/spark/hashing.py`; a test compares all three).
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.errors import StateError
from millpond.ids import InstanceId, KeyGroup, PartitionId

PRIME = 2**31 - 1
LOW_FACTOR = 1_073_740_439
HIGH_FACTOR = 1_006_632_961
SHIFT = 987_654_323
CHAIN_FACTOR = 48_271

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

DEFAULT_KEY_GROUPS = 128
DEFAULT_INSTANCES = 8
KEY_GROUPS_MAX = 32_768

_DAY_ZERO = datetime.date(1970, 1, 1).toordinal()


def hash_int(value: int) -> int:
    """Hash a signed 64-bit integer to 0..2^31-2."""
    low = value & 0xFFFFFFFF
    high = (value >> 32) & 0xFFFFFFFF
    return (low * LOW_FACTOR + (high % PRIME) * HIGH_FACTOR % PRIME + SHIFT) % PRIME


def hash_bytes(value: bytes) -> int:
    """Hash bytes to 0..2^31-2."""
    return (zlib.crc32(value) * LOW_FACTOR + SHIFT) % PRIME


def stable_hash(key: Any) -> int:
    """Hash a key of any supported type; equal keys of one declared type have equal hashes on every machine."""
    kind = type(key)
    if kind is int:
        if not INT_MIN <= key <= INT_MAX:
            raise StateError("MP201", "an integer key is out of range", expected="64 bits, signed", found=str(key)[:40])
        return hash_int(key)
    if kind is str:
        return hash_bytes(encode_text(key))
    if kind is bytes:
        return hash_bytes(key)
    if kind is bool:
        return hash_int(int(key))
    if kind is tuple:
        return hash_many(key)
    if kind is datetime.date:
        return hash_int(key.toordinal() - _DAY_ZERO)
    raise StateError(
        "MP202",
        "this value can't be a key",
        expected="int, str, bytes, bool, datetime.date, or a tuple of them",
        found=f"{kind.__name__}: {str(key)[:60]}",
        hint="convert the key to one of these types first",
    )


def hash_many(parts: tuple[Any, ...]) -> int:
    """Hash the components of a tuple in order."""
    chain = len(parts)
    for part in parts:
        chain = (chain * CHAIN_FACTOR + stable_hash(part) + SHIFT) % PRIME
    return chain


def encode_text(text: str) -> bytes:
    """Encode a string key, refusing lone surrogates, which have no UTF-8 form."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise StateError(
            "MP203",
            "a string key holds a lone surrogate",
            expected="text that has a UTF-8 form",
            found=ascii(text)[:60],
            hint="clean the text first, e.g. text.encode('utf-8', 'replace').decode()",
        ) from None


def hash_ints(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Hash a whole column of 64-bit integers: `hash_int`, vectorised."""
    low = (values & 0xFFFFFFFF).astype(np.int64)
    high = ((values >> 32) & 0xFFFFFFFF).astype(np.int64)
    mixed: npt.NDArray[np.int64] = (low * LOW_FACTOR + (high % PRIME) * HIGH_FACTOR % PRIME + SHIFT) % PRIME
    return mixed


def hash_texts(values: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Hash many byte strings: `hash_bytes`, vectorised."""
    checks = np.fromiter(map(zlib.crc32, values), dtype=np.int64, count=len(values))
    mixed: npt.NDArray[np.int64] = (checks * LOW_FACTOR + SHIFT) % PRIME
    return mixed


@dataclass(frozen=True, slots=True)
class Layout:
    """Who owns what: K key groups (and M instances of partial state) over P partitions, in contiguous ranges.

    With partial state, the ranges end at instance boundaries, so that an instance lies whole on one partition and
    meets the records of its own key groups there. More partitions than instances leave some partitions idle.
    """

    key_groups: int
    partitions: int
    instances: int
    aligned: bool

    def __post_init__(self) -> None:
        if not 1 <= self.key_groups <= KEY_GROUPS_MAX:
            raise StateError(
                "MP204", "bad number of key groups", expected=f"1 to {KEY_GROUPS_MAX}", found=str(self.key_groups)
            )
        if not 1 <= self.instances <= self.key_groups:
            raise StateError(
                "MP205",
                "bad number of instances",
                expected=f"1 to {self.key_groups} (the key groups)",
                found=str(self.instances),
            )
        if not 1 <= self.partitions <= self.key_groups:
            raise StateError(
                "MP206",
                "bad number of partitions",
                expected=f"1 to {self.key_groups} (the key groups)",
                found=str(self.partitions),
            )

    def group_of(self, key: Any) -> KeyGroup:
        """The key group of a key."""
        return KeyGroup(stable_hash(key) % self.key_groups)

    def instance_of(self, group: KeyGroup) -> InstanceId:
        """Which instance of a partial element the records of this group meet."""
        return InstanceId(group * self.instances // self.key_groups)

    def home_of(self, instance: InstanceId) -> KeyGroup:
        """The key group under which an instance is stored: the first that it serves."""
        return KeyGroup(-(-instance * self.key_groups // self.instances))

    def owner_of(self, group: KeyGroup) -> PartitionId:
        """The partition that owns a key group."""
        if self.aligned:
            return PartitionId(self.instance_of(group) * self.partitions // self.instances)
        return PartitionId(group * self.partitions // self.key_groups)

    def owners(self) -> tuple[PartitionId, ...]:
        """The owner of every key group, by group."""
        return tuple(self.owner_of(KeyGroup(group)) for group in range(self.key_groups))

    def groups_of(self, partition: PartitionId) -> range:
        """The key groups that a partition owns (possibly none)."""
        if self.aligned:
            first = -(-partition * self.instances // self.partitions)
            last = -(-(partition + 1) * self.instances // self.partitions)
            return range(-(-first * self.key_groups // self.instances), -(-last * self.key_groups // self.instances))
        return range(
            -(-partition * self.key_groups // self.partitions), -(-(partition + 1) * self.key_groups // self.partitions)
        )

    def instances_of(self, partition: PartitionId) -> range:
        """The instances of partial elements that live on a partition."""
        if not self.aligned:
            return range(0)
        return range(
            -(-partition * self.instances // self.partitions), -(-(partition + 1) * self.instances // self.partitions)
        )


@dataclass(frozen=True, slots=True)
class Succession:
    """Which instances of partial state take over from which, when their number changes.

    Both numbers divide the same row of key groups into equal ranges. Of the finer division, each instance belongs to
    the one of the coarser in whose range its own begins. Ranges are taken before they are rounded to whole groups:
    so everybody has a successor, also where there are few groups to an instance.
    """

    before: int
    after: int

    @property
    def grows(self) -> bool:
        """Whether there are more instances than before; then each has one predecessor, else one successor."""
        return self.after > self.before

    def heirs(self, instance: InstanceId) -> range:
        """The instances that take over from one that was, at least one."""
        return _aligned(instance, self.before, self.after)

    def sources(self, instance: InstanceId) -> range:
        """The instances that one takes over from, at least one."""
        return _aligned(instance, self.after, self.before)


def _aligned(place: int, own: int, other: int) -> range:
    """The places of another division that belong to one of ours."""
    if own >= other:
        return range(place * other // own, place * other // own + 1)
    return range(-(-place * other // own), -(-(place + 1) * other // own))

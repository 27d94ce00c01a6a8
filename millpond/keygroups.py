"""A stable hash of keys, key groups, and which partition owns which groups.

The hash is defined by 64-bit arithmetic that never overflows and by CRC-32, so that Python, NumPy and Spark SQL compute
the same number (Spark's side is `spark/exchange/hashing.py`; a test compares all three).

>>> layout = Layout(key_groups=128, partitions=4, instances=8, aligned=False)
>>> group = layout.group_of("mill")
>>> group, layout.owner_of(group), layout.groups_of(1)
(94, 2, range(32, 64))
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.errors import ElasticError, StateError
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
_MOMENT_ZERO = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - zones are taken off
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_ZEROS_MAX = 64
"""So many zeros at the end of a whole number are written out."""


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
            raise StateError(
                "MP201", "an integer key does not fit into 64 bits", expected="64 bits, signed", found=str(key)[:40]
            )
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
    if kind is datetime.datetime:
        return hash_int(microseconds(key))
    if kind is uuid.UUID:
        return hash_bytes(str(key).encode())
    if kind is decimal.Decimal:
        return hash_bytes(str(plain_decimal(key)).encode())
    plain = plain_key(key)
    if plain is not key:
        return stable_hash(plain)
    raise StateError(
        "MP202",
        "this value can't be a key",
        expected="int, str, bytes, bool, date, datetime, timedelta, UUID, Decimal, Enum, or a tuple or frozen record "
        "of them",
        found=f"{kind.__name__}: {str(key)[:60]}",
        hint="convert the key to one of these types first",
    )


def plain_key(key: Any) -> Any:
    """Return what counts of a key: the value of an enum, the fields of a record, microseconds, else the key itself."""
    if isinstance(key, enum.Enum):
        return key.value
    if isinstance(key, tuple):
        return tuple(key)
    if isinstance(key, datetime.timedelta):
        return key // _MICROSECOND
    if dataclasses.is_dataclass(key):
        return tuple([getattr(key, field.name) for field in dataclasses.fields(key)])
    return key


def microseconds(moment: datetime.datetime) -> int:
    """Return the microseconds since 1970 of a moment in UTC, or of one without a zone as if it were."""
    return (moment.replace(tzinfo=None) - _MOMENT_ZERO) // _MICROSECOND


def moment_at(micros: int) -> datetime.datetime:
    """Return the moment, without a zone, so many microseconds after 1970."""
    return _MOMENT_ZERO + micros * _MICROSECOND


def plain_decimal(number: decimal.Decimal) -> decimal.Decimal:
    """Return the one way to write a number: 1.5 for 1.50, 100 for 1E+2, 0 for -0; Python takes them for one key."""
    if not number:
        return decimal.Decimal(0)
    plain = number.normalize(_EXACT)
    exponent = plain.as_tuple().exponent
    if isinstance(exponent, int) and 0 < exponent <= _ZEROS_MAX:
        return plain.quantize(decimal.Decimal(1), context=_EXACT)
    return plain


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
    """Who owns what: K key groups (and M instances of partial state) over P partitions.

    They are owned in contiguous ranges of about equal length, or as `assigned`, which names the owner of every group.
    With partial state, owners change at instance boundaries alone, so that an instance lies whole on one partition and
    meets the records of its own key groups there. More partitions than instances leave some partitions idle.

    Rows of tasks without state may run anywhere. Their partitions are named by key group in `spread`; they are the
    owners if it is not given. Nothing but time depends on it, so no checkpoint notes it.
    """

    key_groups: int
    partitions: int
    instances: int
    aligned: bool
    assigned: tuple[int, ...] | None = None
    spread: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.key_groups <= KEY_GROUPS_MAX:
            raise StateError(
                "MP204",
                "the number of key groups is out of range",
                expected=f"1 to {KEY_GROUPS_MAX}",
                found=str(self.key_groups),
            )
        if not 1 <= self.instances <= self.key_groups:
            raise StateError(
                "MP205",
                "the number of instances is out of range",
                expected=f"1 to {self.key_groups} (the key groups)",
                found=str(self.instances),
            )
        if not 1 <= self.partitions <= self.key_groups:
            raise StateError(
                "MP206",
                "the number of partitions is out of range",
                expected=f"1 to {self.key_groups} (the key groups)",
                found=str(self.partitions),
            )
        if self.spread is not None:
            self._check_numbers(self.spread)
        if self.assigned is not None:
            self._check_assigned(self.assigned)

    def _check_numbers(self, numbers: tuple[int, ...]) -> None:
        if len(numbers) != self.key_groups or not all(0 <= number < self.partitions for number in numbers):
            raise ElasticError(
                "MP680",
                "key groups can't be assigned like this",
                expected=f"{self.key_groups} partitions from 0 to {self.partitions - 1}, one for each key group",
                found=f"{len(numbers)} from {min(numbers, default=0)} to {max(numbers, default=0)}",
            )

    def _check_assigned(self, assigned: tuple[int, ...]) -> None:
        self._check_numbers(assigned)
        if self.aligned and any(len({assigned[group] for group in atom}) > 1 for atom in self.atoms):
            raise ElasticError(
                "MP680",
                "key groups can't be assigned like this",
                expected="one partition for all key groups of an instance of partial state",
                found="several",
            )

    def with_owners(self, assigned: Sequence[int], partitions: int | None = None) -> Layout:
        """Return the same key groups and instances, owned like this."""
        count = self.partitions if partitions is None else partitions
        return Layout(self.key_groups, count, self.instances, self.aligned, tuple(assigned))

    def with_spread(self, spread: Sequence[int] | None) -> Layout:
        """Return the same owners, with rows of tasks without state in these partitions."""
        return replace(self, spread=None if spread is None else tuple(spread))

    def carriers(self) -> tuple[int, ...]:
        """Return the partition that runs rows of tasks without state, for every key group."""
        return self.owners() if self.spread is None else self.spread

    def moved_since(self, before: Layout) -> int:
        """Return how many key groups have another owner than they had before."""
        return sum(now != then for now, then in zip(self.owners(), before.owners(), strict=True))

    @property
    def atoms(self) -> tuple[range, ...]:
        """What can only be owned together: key groups one by one, or those of an instance."""
        if not self.aligned:
            return tuple(range(group, group + 1) for group in range(self.key_groups))
        homes = [self.home_of(InstanceId(instance)) for instance in range(self.instances)]
        return tuple(range(first, end) for first, end in pairwise([*homes, self.key_groups]))

    @property
    def in_ranges(self) -> bool:
        """Whether the owners are those that follow from the numbers alone."""
        return self.assigned is None or self.assigned == self._ranged().owners()

    def _ranged(self) -> Layout:
        return Layout(self.key_groups, self.partitions, self.instances, self.aligned)

    def group_of(self, key: Any) -> KeyGroup:
        """Return the key group of a key."""
        return KeyGroup(stable_hash(key) % self.key_groups)

    def instance_of(self, group: KeyGroup) -> InstanceId:
        """Return which instance of a partial element the records of this group meet."""
        return InstanceId(group * self.instances // self.key_groups)

    def home_of(self, instance: InstanceId) -> KeyGroup:
        """Return the key group under which an instance is stored: the first that it serves."""
        return KeyGroup(-(-instance * self.key_groups // self.instances))

    def owner_of(self, group: KeyGroup) -> PartitionId:
        """Return the partition that owns a key group."""
        if self.assigned is not None:
            return PartitionId(self.assigned[group])
        if self.aligned:
            return PartitionId(self.instance_of(group) * self.partitions // self.instances)
        return PartitionId(group * self.partitions // self.key_groups)

    def owners(self) -> tuple[PartitionId, ...]:
        """Return the owner of every key group, by group."""
        return tuple(self.owner_of(KeyGroup(group)) for group in range(self.key_groups))

    def groups_of(self, partition: PartitionId) -> Sequence[int]:
        """Return the key groups that a partition owns (possibly none), ascending."""
        if self.assigned is not None:
            return _groups_by_owner(self.assigned, self.partitions)[partition]
        return self.range_of(partition)

    def range_of(self, partition: PartitionId) -> range:
        """Return the key groups that a partition owns where nothing is assigned."""
        if self.aligned:
            first = -(-partition * self.instances // self.partitions)
            last = -(-(partition + 1) * self.instances // self.partitions)
            return range(-(-first * self.key_groups // self.instances), -(-last * self.key_groups // self.instances))
        return range(
            -(-partition * self.key_groups // self.partitions), -(-(partition + 1) * self.key_groups // self.partitions)
        )

    def instances_of(self, partition: PartitionId) -> Sequence[int]:
        """Return the instances of partial elements that live on a partition, ascending."""
        if not self.aligned:
            return range(0)
        if self.assigned is not None:
            return [n for n in range(self.instances) if self.assigned[self.home_of(InstanceId(n))] == partition]
        return range(
            -(-partition * self.instances // self.partitions), -(-(partition + 1) * self.instances // self.partitions)
        )


@lru_cache(maxsize=16)
def _groups_by_owner(assigned: tuple[int, ...], partitions: int) -> tuple[Sequence[int], ...]:
    """Return the key groups of each partition; a range where that is one."""
    owned: list[list[int]] = [[] for _ in range(partitions)]
    for group, owner in enumerate(assigned):
        owned[owner].append(group)
    return tuple(
        range(groups[0], groups[-1] + 1) if groups and groups[-1] - groups[0] == len(groups) - 1 else tuple(groups)
        for groups in owned
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
        """Return the instances that take over from one that was, at least one."""
        return _aligned(instance, self.before, self.after)

    def sources(self, instance: InstanceId) -> range:
        """Return the instances that one takes over from, at least one."""
        return _aligned(instance, self.after, self.before)


def _aligned(place: int, own: int, other: int) -> range:
    """Return the places of another division that belong to one of ours."""
    if own >= other:
        return range(place * other // own, place * other // own + 1)
    return range(-(-place * other // own), -(-(place + 1) * other // own))

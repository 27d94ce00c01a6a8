"""The state of all partitions as one base: what a task of gathered rows reads its keys from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.ids import KeyGroup, PartitionId
from millpond.keygroups import Layout
from millpond.state.local.storekey import GROUP_BYTES, group_of
from millpond.state.local.storeview import StoreView


def groups_of(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the key group of each of many store keys."""
    first, end = GROUP_BYTES
    groups = pc.binary_slice(keys, first, end).cast(pa.binary(end - first))
    numbers = np.frombuffer(groups.buffers()[1], dtype=">u2", count=len(keys), offset=groups.offset * (end - first))
    return numbers.astype(np.int64)


def owners_of(layout: Layout, keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the partition that owns each of many store keys."""
    owners: npt.NDArray[np.int64] = np.array(layout.owners(), dtype=np.int64)[groups_of(keys)]
    return owners


class PartitionedView:
    """Reads each key at the partition that owns it, whose state is opened when it is first asked for."""

    def __init__(self, layout: Layout, open_view: Callable[[PartitionId], StoreView]) -> None:
        self._layout = layout
        self._open_view = open_view
        self._views: dict[PartitionId, StoreView] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for view in self._views.values():
            view.close()

    def _view(self, partition: PartitionId) -> StoreView:
        view = self._views.get(partition)
        if view is None:
            view = self._views[partition] = self._open_view(partition)
        return view

    def _home(self, key: bytes) -> StoreView:
        return self._view(self._layout.owner_of(KeyGroup(group_of(key))))

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        return self._home(key).get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        owners = owners_of(self._layout, pa.array(keys, pa.binary()))
        found: list[bytes | None] = [None] * len(keys)
        for partition in np.unique(owners).tolist():
            places = np.flatnonzero(owners == partition).tolist()
            values = self._view(PartitionId(partition)).get_many([keys[at] for at in places])
            for at, value in zip(places, values, strict=True):
                found[at] = value
        return found

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return all entries of one element and key group, in key order."""
        return self._home(prefix).scan(prefix)

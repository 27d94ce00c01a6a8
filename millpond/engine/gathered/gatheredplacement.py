"""Where the rows of gathered entry points run: rows that share keys, directly or through others, in one partition.

A survey of the keys of each part of the rows is small, and goes to the driver; it joins the surveys and answers with a
placement. Whatever the survey said, a row is only placed if all its keys are for one partition: so rows that a source
gives otherwise when it is read again are an error, and nothing else.

Keys that must be together are connected components over the keys that rows share:

>>> connected(4, np.array([0, 2]), np.array([1, 3])).tolist()
[0, 0, 2, 2]
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.engine.assemble import LATEST
from millpond.engine.gathered.keysets import TouchedKeys, feed_keys, store_keys
from millpond.engine.gathered.partitionedview import owners_of
from millpond.engine.plan import ProgramPlan
from millpond.engine.task.intake import column_array
from millpond.engine.time.eventtime import FIRST_US
from millpond.errors import EpochError, MillpondError
from millpond.ids import PartitionId

Ints = npt.NDArray[np.int64]


class Survey(msgspec.Struct, frozen=True):
    """The keys of some rows: which of them must be together (one label), and how many rows each label has.

    It is `broken` if a row has something for a key that can't be one: the task that runs the row will tell.
    """

    keys: list[bytes] = []
    labels: bytes = b""
    rows: bytes = b""
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Where keys go: all to one partition, or each key to its own.

    `components` and `largest` tell how many there are in the rows that were `surveyed`, and how many rows the largest
    has.
    """

    surveyed: int
    components: int
    largest: int
    one: PartitionId | None = None
    keys: pa.Array | None = None
    parts: npt.NDArray[np.int32] | None = None

    def counters(self) -> dict[str, int]:
        """Return what is told of an epoch's components."""
        told = {"surveyed": self.surveyed, "components": self.components, "largest": self.largest}
        return {LATEST + name: count for name, count in told.items()}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Survey)


def encode_survey(survey: Survey) -> bytes:
    """Return a survey as bytes."""
    return _encoder.encode(survey)


def decode_survey(data: bytes) -> Survey:
    """Read a survey."""
    return _decoder.decode(data)


def survey(plan: ProgramPlan, table: pa.Table, floor_us: int = FIRST_US) -> Survey:
    """Look at the keys of rows, none of which goes by a time before `floor_us`."""
    try:
        return _surveyed(plan, table, floor_us)
    except MillpondError:
        return Survey(broken=True)


def _surveyed(plan: ProgramPlan, table: pa.Table, floor_us: int) -> Survey:
    names: list[bytes] = []
    owners: list[Ints] = []
    nodes: list[Ints] = []
    rows = 0
    for feed, own in _rows_of(plan, table):
        keys = feed_keys(plan, feed, table.take(pa.array(own)), floor_us)
        for found in keys.touched:
            owners.append(found.rows + rows)
            nodes.append(found.codes + len(names))
            names += store_keys(plan, found)
        rows += int(keys.good.sum())
    if not names or not rows:
        return Survey()
    numbers, distinct = _numbered(names)
    owner, node = np.concatenate(owners), numbers[np.concatenate(nodes)]
    order = np.argsort(owner, kind="stable")
    owner, node = owner[order], node[order]
    labels = connected(len(distinct), *neighbours(owner, node))
    firsts = np.concatenate(([True], owner[1:] != owner[:-1]))
    counted = np.bincount(labels[node[firsts]], minlength=len(distinct))
    return Survey(distinct.to_pylist(), labels.tobytes(), counted.astype(np.int64).tobytes())


def place_surveyed(plan: ProgramPlan, surveys: Sequence[Survey]) -> Placement:
    """Join surveys of all rows, and choose a partition for every component."""
    names = [key for one in surveys for key in one.keys]
    if not names or any(one.broken for one in surveys):
        return Placement(0, 0, 0, one=PartitionId(0))
    numbers, distinct = _numbered(names)
    labels = _offset([np.frombuffer(one.labels, dtype=np.int64) for one in surveys])
    counts = np.concatenate([np.frombuffer(one.rows, dtype=np.int64) for one in surveys])
    # Keys with one label in a survey are together: join each to the key that gave the label its name.
    together = connected(len(distinct), numbers, numbers[labels])
    weights = np.bincount(together[numbers], weights=counts, minlength=len(distinct))
    roots = np.unique(together)
    sizes = weights[roots].astype(np.int64)
    rows, largest = int(sizes.sum()), int(sizes.max())
    if plan.layout.partitions == 1 or largest >= GIANT_SHARE * rows:
        giant = together == roots[int(sizes.argmax())]
        return Placement(rows, len(roots), largest, one=_home(plan, distinct.filter(pa.array(giant))))
    places = packed(sizes, plan.layout.partitions)
    parts = places[np.searchsorted(roots, together)].astype(np.int32)
    return Placement(rows, len(roots), largest, keys=distinct, parts=parts)


def _home(plan: ProgramPlan, keys: pa.Array) -> PartitionId:
    """Return the partition that owns most of some keys: the fewest values travel there."""
    return PartitionId(int(np.bincount(owners_of(plan.layout, keys)).argmax()))


def _offset(labels: Sequence[Ints]) -> Ints:
    starts = np.cumsum([0, *(len(part) for part in labels)])
    return np.concatenate([part + start for part, start in zip(labels, starts, strict=False)])


def _numbered(names: list[bytes]) -> tuple[Ints, pa.Array]:
    """Numbers for names, equal ones for equal names, and the names by number."""
    coded = pa.array(names, pa.binary()).dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary


def placed(plan: ProgramPlan, placement: Placement, table: pa.Table, floor_us: int = FIRST_US) -> pa.Table:
    """Rows with the partition in `part` that they run in; rows of other feeds stay where they are."""
    parts = column_array(table, "part").to_numpy(zero_copy_only=False).copy()
    for feed, own in _rows_of(plan, table):
        parts[own] = _parts(plan, placement, feed, table.take(pa.array(own)), floor_us)
    at = table.schema.get_field_index("part")
    return table.set_column(at, table.schema.field(at), pa.array(parts, pa.int32()))


def _parts(plan: ProgramPlan, placement: Placement, feed: int, table: pa.Table, floor_us: int) -> npt.NDArray[np.int32]:
    if placement.one is not None:
        return np.full(table.num_rows, placement.one, dtype=np.int32)
    found = feed_keys(plan, feed, table, floor_us)
    # A row without keys meets no state, and a bad one is told wherever it is.
    first = np.zeros(int(found.good.sum()), dtype=np.int32)
    seen = np.zeros(len(first), dtype=bool)
    for touched in found.touched:
        wanted = _targets(plan, placement, touched)[touched.codes]
        fresh = ~seen[touched.rows]
        first[touched.rows[fresh]] = wanted[fresh]
        seen[touched.rows] = True
        if (first[touched.rows] != wanted).any():
            raise _changed("a row whose keys were in different components")
    parts = np.zeros(table.num_rows, dtype=np.int32)
    parts[found.good] = first
    return parts


def _targets(plan: ProgramPlan, placement: Placement, found: TouchedKeys) -> npt.NDArray[np.int32]:
    assert placement.parts is not None
    at = pc.index_in(pa.array(store_keys(plan, found), pa.binary()), value_set=placement.keys)
    if at.null_count:
        raise _changed("a key that was not there")
    targets: npt.NDArray[np.int32] = placement.parts[at.to_numpy(zero_copy_only=False)]
    return targets


def _rows_of(plan: ProgramPlan, table: pa.Table) -> list[tuple[int, npt.NDArray[np.intp]]]:
    """Return the gathered feeds that a table has rows of, and which rows they are."""
    wanted = plan.gathered_feeds
    if "feed" not in table.column_names:
        return [(0, np.arange(table.num_rows))] if wanted and table.num_rows else []
    feeds = column_array(table, "feed").to_numpy(zero_copy_only=False)
    rows = [(feed, np.flatnonzero(feeds == feed)) for feed in wanted]
    return [(feed, own) for feed, own in rows if len(own)]


def _changed(found: str) -> EpochError:
    return EpochError(
        "MP438",
        "a feed gave other rows when it was read a second time",
        expected="the same rows, since rows over several keys are read twice: once for their keys, once to run them",
        found=found,
        hint="leave random values and the current time out of the DataFrame, or write it to files first; nothing was "
        "committed",
    )


GIANT_SHARE = 0.75
"""A component with more of the rows than this bounds the time of all: sending the rest elsewhere saves next to nothing,
and costs a look at every row."""

LARGE_SHARE = 0.01
"""Components with more of a partition's share of rows than this are placed one by one; smaller ones fill the rest."""


def connected(count: int, left: Ints, right: Ints) -> Ints:
    """Label `count` nodes so that nodes joined by edges, directly or through others, have one label: the least of them.

    Roots hook onto smaller neighbours, then all paths are halved until they are flat; edges inside a component are
    forgotten on the way. So long chains take few rounds.
    """
    parent = np.arange(count, dtype=np.int64)
    while len(left):
        one, other = parent[left], parent[right]
        apart = one != other
        left, right = one[apart], other[apart]
        np.minimum.at(parent, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(flat := parent[parent], parent):
            parent = flat
    return parent


def neighbours(owners: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """Edges that join all nodes of one owner, as a chain; owners must be sorted."""
    same = owners[1:] == owners[:-1]
    return nodes[:-1][same], nodes[1:][same]


def packed(weights: Ints, partitions: int) -> Ints:
    """Choose a partition for each component, so that all weigh about the same: large ones first, small ones in bulk."""
    placed = np.zeros(len(weights), dtype=np.int64)
    order = np.argsort(-weights, kind="stable")
    share = float(weights.sum()) / partitions
    large = order[weights[order] > share * LARGE_SHARE]
    loads = [(0, partition) for partition in range(partitions)]
    for component in large.tolist():
        load, partition = heapq.heappop(loads)
        placed[component] = partition
        heapq.heappush(loads, (load + int(weights[component]), partition))
    small = order[len(large) :]
    room = np.array([max(share - load, 0.0) for load, _ in sorted(loads, key=lambda load: load[1])])
    bounds = np.cumsum(room)
    before = np.cumsum(weights[small]) - weights[small]
    placed[small] = np.minimum(np.searchsorted(bounds, before, side="right"), partitions - 1)
    return placed

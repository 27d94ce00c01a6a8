"""Restore: how long tasks without a copy of the state need to have all of it, and to answer for a first key.

Written by 1 or 2 partitions, restored by 1 or 2 tasks at once, each a process of its own; every entry is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.options import add_seed, positive
from benchmarks.report import BenchmarkError, Figures, Teller, ratio
from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork, Parent
from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.snapshots.compaction import compact
from millpond.clock import SystemClock
from millpond.engine.local_state import openstate
from millpond.engine.local_state.openstate import Restore, Restoring, open_state
from millpond.ids import PartitionId
from millpond.keygroups import Layout, hash_ints
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, store_key, unit_of
from millpond.storage.open import open_storage

NEEDS_SPARK = False

KEYS, VALUE_BYTES, TURNS = 2_000_000, 240, 2
KEY_GROUPS = 128
CASES = ((1, 1), (2, 1), (1, 2), (2, 2))
"""Partitions that wrote the state, and tasks that restore it."""

CHANGED_SHARE = 0.01
"""How much of the state the epochs after the snapshot change."""

EPOCHS_AFTER = 3
ELEMENTS = (ElementSchema("values", "map", "partitioned", "", "int", "bytes"),)

_CLOCK = SystemClock()
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Options:
    """How many keys with how large values, and how often."""

    keys: int
    value_bytes: int
    turns: int
    seed: int
    folder: str | None


@dataclass(frozen=True, slots=True)
class Restored:
    """What one task found: seconds to its first answer, seconds until it had everything, and what it holds."""

    first_s: float
    all_s: float
    entries: int
    digest: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What a task shall do; it opens the storage and its local store by itself."""

    url: str
    local: str
    parent: Parent
    tasks: int
    task: int
    restore: Restore
    first_key: bytes
    at_once_bytes_max: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--keys", type=positive, default=KEYS, help="keys of the state (default: %(default)s)")
    parser.add_argument("--bytes", type=positive, default=VALUE_BYTES, help="bytes of a value (default: %(default)s)")
    parser.add_argument("--turns", type=positive, default=TURNS, help="turns of each; the fastest counts (default: 2)")
    parser.add_argument("--folder", default=None, help="where to keep files (default: the system's temporary folder)")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.keys, args.bytes, args.turns, args.seed, args.folder)


class Data:
    """A state whose every value follows from its key and the epoch that wrote it last."""

    def __init__(self, options: Options) -> None:
        rng = np.random.default_rng(options.seed)
        self._bytes = options.value_bytes
        self._pool = rng.bytes((1 << 20) + options.value_bytes)
        numbers = np.arange(options.keys, dtype=np.int64)
        groups = (hash_ints(numbers) % KEY_GROUPS).tolist()
        self.keys = sorted(
            store_key(0, group, number.to_bytes(8, "big"))
            for number, group in zip(range(options.keys), groups, strict=True)
        )
        changed = max(1, int(options.keys * CHANGED_SHARE))
        self.epochs = [self.keys, *(self._some(rng, changed) for _ in range(EPOCHS_AFTER))]

    def _some(self, rng: np.random.Generator, count: int) -> list[bytes]:
        chosen = np.sort(rng.choice(len(self.keys), size=count, replace=False))
        return [self.keys[at] for at in chosen.tolist()]

    def value(self, key: bytes, epoch: int) -> bytes:
        """What an epoch writes under a key."""
        start = (int.from_bytes(unit_of(key), "big") * 7_919 + epoch * 104_729) % (1 << 20)
        return self._pool[start : start + self._bytes]

    def digest(self) -> int:
        """What the digest of the whole state must be."""
        last: dict[bytes, int] = {}
        for epoch, keys in enumerate(self.epochs):
            last.update(dict.fromkeys(keys, epoch))
        return sum(digest_of(key, self.value(key, epoch)) for key, epoch in last.items()) % 2**64


def digest_of(key: bytes, value: bytes) -> int:
    """A number for an entry; those of all entries are added, so that their order and their tasks do not matter."""
    return int.from_bytes(hashlib.blake2b(value, key=key[:64], digest_size=8).digest(), "big")


def write_checkpoint(url: str, data: Data, partitions: int) -> Parent:
    """Write the state by so many partitions: a snapshot, and the deltas of some epochs after it."""
    storage = open_storage(url)
    layout = Layout(KEY_GROUPS, partitions, 1, aligned=False)
    checkpoint = Checkpoint.open(storage, ELEMENTS, KEY_GROUPS, 1)
    for epoch, keys in enumerate(data.epochs):

        def compute(_: Parent, epoch: int = epoch, keys: list[bytes] = keys) -> EpochWork:
            parts = []
            for partition in range(partitions):
                groups = layout.groups_of(PartitionId(partition))
                own = [key for key in keys if group_of(key) in groups]
                files = write_delta(storage, Changes(own, [data.value(key, epoch) for key in own]), mark="test")
                parts.append(Changed(files=files))
            return EpochWork(tuple(parts), (), {})

        checkpoint.run_epoch(Batch("fill", epoch), compute, lambda _: None, partitions=partitions)
        if epoch == 0:
            assert checkpoint.head is not None
            compact(storage, checkpoint.head, checkpoint.head_hash, KEY_GROUPS)
            # Opened anew, it finds the snapshot and names it in the next epoch.
            checkpoint.close()
            checkpoint = Checkpoint.open(storage, ELEMENTS)
    checkpoint.close()
    return checkpoint.parent


def restore_task(asked: Asked, pipe: Connection) -> None:
    """A task in a process of its own: says that it is there, waits, restores, and tells what it holds."""
    openstate.AT_ONCE_BYTES_MAX = asked.at_once_bytes_max
    storage = open_storage(asked.url)
    layout = Layout(KEY_GROUPS, asked.tasks, 1, aligned=False)
    pipe.send("ready")
    pipe.recv()
    begun = _CLOCK.ticks()
    with open_state(storage, asked.local, asked.parent, layout, PartitionId(asked.task), asked.restore) as view:
        if view.get(asked.first_key) is None:
            raise BenchmarkError("the first key has no value")
        first_s = _CLOCK.ticks() - begun
        for group in layout.groups_of(PartitionId(asked.task)):
            next(view.scan(store_key(0, group, b"")), None)
        all_s = _CLOCK.ticks() - begun
        entries = digest = 0
        for key, value in view.scan(b""):
            entries += 1
            digest += digest_of(key, value)
    pipe.send(Restored(first_s, all_s, entries, digest % 2**64))


def restore(url: str, parent: Parent, data: Data, tasks: int, how: Restore, folder: Path) -> Restored:
    """Restore by so many tasks at once, each without anything; the slowest says how long it took."""
    local = tempfile.mkdtemp(prefix="local-", dir=folder)
    layout = Layout(KEY_GROUPS, tasks, 1, aligned=False)
    started = []
    try:
        for task in range(tasks):
            groups = layout.groups_of(PartitionId(task))
            middle = next(key for key in data.keys if group_of(key) >= groups[len(groups) // 2])
            asked = Asked(url, local, parent, tasks, task, how, middle, _at_once(url, parent, groups))
            here, there = _SPAWN.Pipe()
            process = _SPAWN.Process(target=restore_task, args=(asked, there))
            process.start()
            there.close()
            started.append((process, here))
        found = list(_results([pipe for _, pipe in started]))
    finally:
        for process, _ in started:
            process.join()
        shutil.rmtree(local, ignore_errors=True)
    return Restored(
        max(each.first_s for each in found),
        max(each.all_s for each in found),
        sum(each.entries for each in found),
        sum(each.digest for each in found) % 2**64,
    )


def _at_once(url: str, parent: Parent, groups: Sequence[int]) -> int:
    """The size that is restored at once; less for a state so small that it would all be, which tests have."""
    size = Restoring(open_storage(url), parent, groups).size_bytes
    return min(openstate.AT_ONCE_BYTES_MAX, size - 1)


def _results(pipes: list[Connection]) -> Iterator[Restored]:
    try:
        for pipe in pipes:
            pipe.recv()
        for pipe in pipes:
            pipe.send("go")
        for pipe in pipes:
            yield pipe.recv()
    except EOFError:
        raise BenchmarkError("a task that restores ended without a result; what it said is above") from None


def checked(found: Restored, data: Data, digest: int, what: str) -> Restored:
    """Return what was restored, if it is the state that was written."""
    if (found.entries, found.digest) != (len(data.keys), digest):
        raise BenchmarkError(f"{what}: {found.entries} of {len(data.keys)} entries, or other values than were written")
    return found


def run(options: Options, _spark: SparkSession | None, teller: Teller) -> Figures:
    """Write the state by 1 and 2 partitions, and restore each by 1 and 2 tasks, eagerly and on demand in turns."""
    root = Path(tempfile.mkdtemp(prefix="millpond-restore-", dir=options.folder))
    try:
        with teller.doing("making the state"):
            data = Data(options)
            digest = data.digest()
        parents = {}
        for partitions in (1, 2):
            with teller.doing(f"writing the state by {partitions} partitions"):
                parents[partitions] = write_checkpoint(str(root / f"ck-{partitions}"), data, partitions)
        turns: dict[tuple[int, int, Restore], list[Restored]] = {}
        hows: tuple[Restore, ...] = ("eager", "on_demand")
        for _ in range(options.turns):
            for written, tasks in CASES:
                for how in hows:
                    with teller.doing(f"{written} to {tasks}, {how}"):
                        found = restore(str(root / f"ck-{written}"), parents[written], data, tasks, how, root)
                    turns.setdefault((written, tasks, how), []).append(
                        checked(found, data, digest, f"{written}→{tasks}")
                    )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report(turns, parents[1], options, teller)


def report(
    turns: dict[tuple[int, int, Restore], list[Restored]], parent: Parent, options: Options, teller: Teller
) -> Figures:
    """Put the figures together: the fastest turn of each."""
    files = [*parent.snapshot, *(state for delta in parent.deltas for state in delta.files if delta.epoch > 1)]
    figures: Figures = {"benchmark": "restore", "state_mb": round(sum(f.file.size_bytes for f in files) / 1e6, 1)}
    for written, tasks in CASES:
        eager, demanded = turns[written, tasks, "eager"], turns[written, tasks, "on_demand"]
        eager_s, demanded_s = min(each.all_s for each in eager), min(each.all_s for each in demanded)
        first_s = min(each.first_s for each in demanded)
        name = f"{written}_to_{tasks}"
        figures[f"eager_{name}_s"] = round(eager_s, 3)
        figures[f"on_demand_first_{name}_s"] = round(first_s, 4)
        figures[f"on_demand_all_{name}_s"] = round(demanded_s, 3)
        figures[f"first_answer_sooner_{name}"] = ratio(eager_s, first_s)
        teller.say(
            f"{written}→{tasks}: all in {eager_s:.2f} s; on demand the first in {first_s:.3f} s, all {demanded_s:.2f} s"
        )
    return figures | {
        "checked": True,
        "unit": "seconds of the slowest task, fastest turn; a task is a process that has nothing but the address, its "
        "start not counted; files are in the system's cache",
        "settings": asdict(options),
    }

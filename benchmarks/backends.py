"""Storage backends: puts and gets in a second, and the time to open a storage again; every value is checked."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import SparkSession

from benchmarks.baselines.perkey import FaithfulPerKeyStorage
from benchmarks.options import positive, positives, seconds
from benchmarks.report import BenchmarkError, Figures, Teller, ratio
from benchmarks.servers import REDIS_PASSWORD, RedisServer, ServerError, s3_server
from millpond.clock import SystemClock
from millpond.storage.contract import PutOutcome, Storage
from millpond.storage.open import open_storage

NEEDS_SPARK = False

KINDS = (
    *("memory", "log", "files", "perkey", "perkey_faithful"),
    *("rocksdb_one_owner", "rocksdb", "redis", "s3"),
)
DURABLE = frozenset(KINDS) - {"memory", "perkey_faithful"}
"""Kinds that keep what they acknowledged after a power cut."""

# Of a server that lives as long as a benchmark, on loopback.
S3_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",  # nosec B105
    "AWS_REGION": "us-east-1",
}

KEYS, VALUE_BYTES, WRITERS, TURNS, SECONDS, FILL_SECONDS = "10_000,100_000,1_000_000", 1024, "1,8,32", 2, 1.5, 90.0

FILL_WRITERS = 64
"""Threads that fill a storage: more than are measured, since storages commit what comes at once together."""

TURN_KEYS_MIN, TURN_SHARE = 2_000, 4
"""A turn puts no more than a quarter of the keys that there were, or so many: a size shall stay what it is."""

_CLOCK = SystemClock()

Open = Callable[[], Storage]


@dataclass(frozen=True, slots=True)
class Options:
    """How many keys of which size, by how many threads, how often, and for how long each."""

    keys: tuple[int, ...]
    value_bytes: int
    writers: tuple[int, ...]
    turns: int
    seconds: float
    fill_seconds: float
    kinds: tuple[str, ...]
    folder: str | None


@dataclass(frozen=True, slots=True)
class Rates:
    """Puts and gets in a second."""

    writes_per_s: float
    reads_per_s: float


@dataclass(frozen=True, slots=True)
class Opened:
    """How many keys a storage had when it was opened again, and how long it took until all names were listed."""

    keys: int
    recovery_ms: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--keys", type=positives, default=positives(KEYS), help=f"numbers of keys (default: {KEYS})")
    parser.add_argument("--bytes", type=positive, default=VALUE_BYTES, help="bytes of a value (default: %(default)s)")
    parser.add_argument(
        "--writers", type=positives, default=positives(WRITERS), help=f"threads that put at once (default: {WRITERS})"
    )
    parser.add_argument("--turns", type=positive, default=TURNS, help="turns of each; the fastest counts (default: 2)")
    parser.add_argument(
        "--seconds", type=seconds, default=SECONDS, help="a turn writes, and reads, no longer than this (default: 1.5)"
    )
    parser.add_argument(
        "--fill-seconds",
        type=seconds,
        default=FILL_SECONDS,
        help="so long, a slow storage is filled up to a number of keys; then it has fewer (default: %(default)s)",
    )
    parser.add_argument("--backends", default=",".join(KINDS), help=f"which ones (default: {','.join(KINDS)})")
    parser.add_argument("--folder", default=None, help="where to keep files (default: the system's temporary folder)")


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    kinds = tuple(args.backends.split(","))
    if not set(kinds) <= set(KINDS):
        raise BenchmarkError(f"unknown backends: {', '.join(sorted(set(kinds) - set(KINDS)))}")
    return Options(
        tuple(sorted(args.keys)),
        args.bytes,
        args.writers,
        args.turns,
        args.seconds,
        args.fill_seconds,
        kinds,
        args.folder,
    )


def value_of(name: str, size: int) -> bytes:
    """The bytes that belong to a name and to no other."""
    seed = hashlib.blake2b(name.encode(), digest_size=64).digest()
    return (seed * (size // len(seed) + 1))[:size]


def name_of(number: int) -> str:
    """A name as those of deltas are: 40 hex digits."""
    return f"deltas/{hashlib.blake2b(b'%d' % number, digest_size=20).hexdigest()}"


@contextmanager
def places(root: Path) -> Iterator[Callable[[str], Open]]:
    """How to open a new storage of a kind; servers are started when they are first needed."""
    numbers = count()
    with ExitStack() as stack:
        servers: dict[str, str] = {}

        def redis_place() -> str:
            folder = root / "redis"
            folder.mkdir()
            server = RedisServer(folder)
            stack.callback(server.stop)
            return f"redis://:{quote(REDIS_PASSWORD, safe='')}@127.0.0.1:{server.port}/0"

        def s3_place() -> str:
            os.environ.update(S3_CREDENTIALS)
            return stack.enter_context(s3_server())

        def place(kind: str) -> Open:
            number = next(numbers)
            folder = root / f"{kind}-{number}"
            if kind == "perkey_faithful":
                return lambda: FaithfulPerKeyStorage(folder)
            if kind in {"redis", "s3"} and kind not in servers:
                servers[kind] = redis_place() if kind == "redis" else s3_place()
            url = {
                "memory": f"memory://benchmark-{number}",
                "log": f"log://{folder}",
                "files": str(folder),
                "perkey": f"perkey://{folder}",
                "rocksdb": f"rocksdb://{folder}",
                "rocksdb_one_owner": f"rocksdb://{folder}?owner=one",
                "redis": f"{servers.get('redis')}/benchmark-{number}",
                "s3": f"s3://plain/benchmark-{number}?endpoint={servers.get('s3')}",
            }[kind]
            return lambda: open_storage(url)

        yield place


def by_threads(writers: int, numbers: range, work: Callable[[int], None], until: float) -> tuple[int, float]:
    """Do some work for each number, by several threads, until it is done or late; how much, and how long it took."""
    feed = iter(numbers)

    def run() -> int:
        done = 0
        for number in feed:
            work(number)
            done += 1
            if _CLOCK.ticks() > until:
                break
        return done

    begun = _CLOCK.ticks()
    with ThreadPoolExecutor(writers) as pool:
        done = sum(each.result() for each in [pool.submit(run) for _ in range(writers)])
    return done, _CLOCK.ticks() - begun


class Grown:
    """A storage that grows from size to size; what it must hold is known from how many keys were put."""

    def __init__(self, opener: Open, options: Options) -> None:
        self._opener = opener
        self._options = options
        self._storage = opener()
        self._drawn = random.Random(1)
        self._opened_with = 0
        self.keys = 0

    def fill(self, keys: int) -> None:
        """Put new keys until there are so many, or the time for it is over."""
        self._put(FILL_WRITERS, keys, self._options.fill_seconds)

    def open_again(self) -> Opened:
        """Close it, open it and list all names, which must be those that were put."""
        self.close()
        begun = _CLOCK.ticks()
        self._storage = self._opener()
        names = self._storage.list("deltas")
        took = _CLOCK.ticks() - begun
        if names != sorted(map(name_of, range(self.keys))):
            raise BenchmarkError(f"{self.keys} names were written, and {len(names)} are listed, or others")
        self._opened_with = self.keys
        return Opened(self.keys, round(took * 1000, 2))

    def measure(self, writers: int) -> Rates:
        """Put new keys, and get keys from anywhere, each for a while."""
        new = max(TURN_KEYS_MIN, self._opened_with // TURN_SHARE)
        written, writing_s = self._put(writers, self.keys + new, self._options.seconds)
        ahead = self._drawn.randrange(self.keys)
        read, reading_s = self._get(writers, range(ahead, ahead + self.keys), self._options.seconds)
        return Rates(round(written / writing_s, 1), round(read / reading_s, 1))

    def check(self) -> None:
        """Get every value: all must be what was put."""
        self._get(FILL_WRITERS, range(self.keys), float("inf"))

    def close(self) -> None:
        """Close a storage that can be closed."""
        closing = getattr(self._storage, "close", None)
        if closing is not None:
            closing()

    def _put(self, writers: int, keys: int, limit_s: float) -> tuple[int, float]:
        def put(number: int) -> None:
            name = name_of(number)
            if self._storage.put(name, value_of(name, self._options.value_bytes)) is not PutOutcome.WON:
                raise BenchmarkError(f"{name} was taken, and nobody had put it")

        # Threads take numbers from one feed in order, and finish what they took.
        done, took = by_threads(writers, range(self.keys, keys), put, _CLOCK.ticks() + limit_s)
        self.keys += done
        return done, took

    def _get(self, writers: int, numbers: range, limit_s: float) -> tuple[int, float]:
        def get(number: int) -> None:
            # Numbers one after the other are names that lie anywhere: they are digests.
            name = name_of(number % self.keys)
            if self._storage.get(name) != value_of(name, self._options.value_bytes):
                raise BenchmarkError(f"{name} does not have the value that was put")

        return by_threads(writers, numbers, get, _CLOCK.ticks() + limit_s)


def best(turns: list[Rates]) -> Rates:
    """The fastest of some turns, each figure by itself: what else a machine does can only make one slower."""
    return Rates(max(each.writes_per_s for each in turns), max(each.reads_per_s for each in turns))


@dataclass(slots=True)
class Found:
    """What was measured of one kind of storage, by the number of keys asked for."""

    opened: dict[int, Opened] = field(default_factory=dict)
    rates: dict[int, dict[int, Rates]] = field(default_factory=dict)

    def writes(self, keys: int) -> float:
        """The rate of puts with the best number of writers."""
        return max(each.writes_per_s for each in self.rates[keys].values())

    def figures(self) -> Figures:
        """The best at the largest size, how flat it is, and everything beside it."""
        smallest, largest = min(self.rates), max(self.rates)
        return {
            "keys": self.opened[largest].keys,
            "writes_per_s": self.writes(largest),
            "reads_per_s": max(each.reads_per_s for each in self.rates[largest].values()),
            "recovery_ms": self.opened[largest].recovery_ms,
            "writes_largest_by_smallest": ratio(self.writes(largest), self.writes(smallest)),
            "by_keys": {
                str(keys): {
                    **asdict(self.opened[keys]),
                    "by_writers": {str(writers): asdict(each) for writers, each in rates.items()},
                }
                for keys, rates in self.rates.items()
            },
        }


def report(found: dict[str, Found], options: Options) -> Figures:
    """Put all figures together: per backend the best number of writers, and all of them beside it."""
    figures: Figures = {"benchmark": "backends"}
    for kind, each in found.items():
        figures[kind] = each.figures() | {"durable": kind in DURABLE}
    for name, other in (("indexed_vs_files", "perkey"), ("indexed_vs_unsynced_files", "perkey_faithful")):
        if {"log", other} <= set(found):
            by_keys = {keys: ratio(found["log"].writes(keys), found[other].writes(keys)) for keys in options.keys}
            figures[name] = by_keys[max(options.keys)]
            figures[f"{name}_by_keys"] = {str(keys): each for keys, each in by_keys.items()}
    return figures | {
        "checked": True,
        "unit": "puts and gets in a second, fastest turn; recovery is opening and listing all names, in milliseconds; "
        "a put is durable when it is counted, but for the kinds that say they are not",
        "note": "the S3 server is one for tests, in Python: its speed says nothing about S3; a kind that was too slow "
        "to be filled in time has fewer keys, as it says; "
        "indexed_vs_files is the log against one file per key, both durable, each with its best number of writers",
        "settings": asdict(options),
    }


def run(options: Options, _spark: SparkSession | None, teller: Teller) -> Figures:
    """Measure all backends, turn by turn, so that none has the machine's best moment for itself."""
    root = Path(tempfile.mkdtemp(prefix="millpond-backends-", dir=options.folder))
    found = {kind: Found() for kind in options.kinds}
    try:
        with places(root) as place:
            storages = {kind: Grown(place(kind), options) for kind in options.kinds}
            for keys in options.keys:
                for kind, storage in storages.items():
                    with teller.doing(f"{kind}: filling it up to {keys:,} keys"):
                        storage.fill(keys)
                        found[kind].opened[keys] = storage.open_again()
                grow_on(storages, keys, found, options, teller)
            for kind, storage in storages.items():
                with teller.doing(f"{kind}: checking {storage.keys:,} values"):
                    storage.check()
                    storage.close()
    except ServerError as error:
        raise BenchmarkError(str(error)) from error
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report(found, options)


def grow_on(storages: dict[str, Grown], keys: int, found: dict[str, Found], options: Options, teller: Teller) -> None:
    """Measure storages that have so many keys, by each number of writers."""
    turns: dict[tuple[str, int], list[Rates]] = {}
    for writers in options.writers:
        for _ in range(options.turns):
            for kind, storage in storages.items():
                with teller.doing(f"{kind}: {keys:,} keys, {writers} writers"):
                    turns.setdefault((kind, writers), []).append(storage.measure(writers))
    for kind in storages:
        opened = found[kind].opened[keys]
        found[kind].rates[keys] = {writers: best(turns[kind, writers]) for writers in options.writers}
        for writers, told in found[kind].rates[keys].items():
            teller.say(
                f"{kind}, {opened.keys:,} keys, {writers} writers: {told.writes_per_s:,.0f} puts/s, "
                f"{told.reads_per_s:,.0f} gets/s, open again in {opened.recovery_ms:,.1f} ms"
            )

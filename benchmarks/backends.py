"""Storage backends: puts and gets in a second, and the time to open a storage again; every value is checked."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import SparkSession

from benchmarks.options import positive, positives, seconds
from benchmarks.report import BenchmarkError, Figures, Teller, ratio
from benchmarks.servers import REDIS_PASSWORD, RedisServer, ServerError, s3_server
from millpond.clock import SystemClock
from millpond.storage.contract import PutOutcome, Storage
from millpond.storage.open import open_storage
from millpond.storage.perkey import FaithfulPerKeyStorage

NEEDS_SPARK = False

KINDS = (
    *("memory", "log", "files", "perkey", "perkey_faithful"),
    *("rocksdb_one_owner", "rocksdb", "redis", "s3"),
)
DURABLE = frozenset(KINDS) - {"memory", "perkey_faithful"}
"""Kinds that keep what they acknowledged after a power cut."""

S3_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests", "AWS_REGION": "us-east-1"}

KEYS, VALUE_BYTES, WRITERS, TURNS, SECONDS = "10_000", 1024, "1,8,32", 2, 1.5

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
    kinds: tuple[str, ...]
    folder: str | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One filling of one storage: rates, and the time to open it again and list its names."""

    keys: int
    writes_per_s: float
    reads_per_s: float
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
        "--seconds",
        type=seconds,
        default=SECONDS,
        help="a turn writes no longer than this, and then has fewer keys; large numbers need more (default: 1.5)",
    )
    parser.add_argument("--backends", default=",".join(KINDS), help=f"which ones (default: {','.join(KINDS)})")
    parser.add_argument("--folder", default=None, help="where to keep files (default: the system's temporary folder)")


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    kinds = tuple(args.backends.split(","))
    if not set(kinds) <= set(KINDS):
        raise BenchmarkError(f"unknown backends: {', '.join(sorted(set(kinds) - set(KINDS)))}")
    return Options(args.keys, args.bytes, args.writers, args.turns, args.seconds, kinds, args.folder)


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


def by_threads(writers: int, numbers: list[int], work: Callable[[int], None], until: float) -> tuple[int, float]:
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


def measure(opener: Open, keys: int, writers: int, options: Options) -> Measured:
    """Fill a new storage, open it again, and read all of it back."""
    storage = opener()

    def put(number: int) -> None:
        name = name_of(number)
        if storage.put(name, value_of(name, options.value_bytes)) is not PutOutcome.WON:
            raise BenchmarkError(f"{name} was taken in a new storage")

    written, writing_s = by_threads(writers, list(range(keys)), put, _CLOCK.ticks() + options.seconds)
    close(storage)
    begun = _CLOCK.ticks()
    storage = opener()
    names = storage.list("deltas")
    recovery_s = _CLOCK.ticks() - begun
    # Threads take numbers from one feed in order, and finish what they took.
    if names != sorted(name_of(number) for number in range(written)):
        raise BenchmarkError(f"{written} names were written, and {len(names)} are listed, or others")

    def get(number: int) -> None:
        name = names[number]
        if storage.get(name) != value_of(name, options.value_bytes):
            raise BenchmarkError(f"{name} does not have the value that was put")

    read, reading_s = by_threads(writers, list(range(written)), get, float("inf"))
    close(storage)
    return Measured(written, round(written / writing_s, 1), round(read / reading_s, 1), round(recovery_s * 1000, 2))


def close(storage: Storage) -> None:
    """Close a storage that can be closed."""
    closing = getattr(storage, "close", None)
    if closing is not None:
        closing()


def best(turns: list[Measured]) -> Measured:
    """The fastest of some turns, each figure by itself: what else a machine does can only make one slower."""
    return Measured(
        max(each.keys for each in turns),
        max(each.writes_per_s for each in turns),
        max(each.reads_per_s for each in turns),
        min(each.recovery_ms for each in turns),
    )


def report(found: dict[tuple[str, int, int], Measured], options: Options) -> Figures:
    """Put all figures together: per backend the best number of writers, and all of them beside it."""
    largest = max(options.keys)
    figures: Figures = {"benchmark": "backends"}
    for kind in options.kinds:
        fastest = max(
            (found[kind, largest, writers] for writers in options.writers), key=lambda each: each.writes_per_s
        )
        figures[kind] = {
            **asdict(fastest),
            "durable": kind in DURABLE,
            "by_keys_and_writers": {
                f"{keys}x{writers}": asdict(each)
                for (each_kind, keys, writers), each in found.items()
                if each_kind == kind
            },
        }
    for name, other in (("indexed_vs_files", "perkey"), ("indexed_vs_unsynced_files", "perkey_faithful")):
        if {"log", other} <= set(options.kinds):
            figures[name] = ratio(_best_writes(found, "log", largest), _best_writes(found, other, largest))
    if {"log", "perkey"} <= set(options.kinds):
        figures["indexed_vs_files_by_writers"] = {
            str(writers): ratio(
                found["log", largest, writers].writes_per_s, found["perkey", largest, writers].writes_per_s
            )
            for writers in options.writers
        }
    return figures | {
        "checked": True,
        "unit": "puts and gets in a second, fastest turn; recovery is opening and listing all names, in milliseconds; "
        "a put is durable when it is counted, but for the kinds that say they are not",
        "note": "the S3 server is one for tests, in Python: its speed says nothing about S3; "
        "indexed_vs_files is the log against one file per key, both durable, each with its best number of writers",
        "settings": asdict(options),
    }


def _best_writes(found: dict[tuple[str, int, int], Measured], kind: str, keys: int) -> float:
    return max(
        each.writes_per_s for (each_kind, each_keys, _), each in found.items() if (each_kind, each_keys) == (kind, keys)
    )


def run(options: Options, _spark: SparkSession | None, teller: Teller) -> Figures:
    """Measure all backends, turn by turn, so that none has the machine's best moment for itself."""
    root = Path(tempfile.mkdtemp(prefix="millpond-backends-", dir=options.folder))
    turns: dict[tuple[str, int, int], list[Measured]] = {}
    try:
        with places(root) as place:
            for keys in options.keys:
                for writers in options.writers:
                    for _ in range(options.turns):
                        for kind in options.kinds:
                            with teller.doing(f"{kind}: {keys:,} keys, {writers} writers"):
                                measured = measure(place(kind), keys, writers, options)
                            turns.setdefault((kind, keys, writers), []).append(measured)
                    for kind in options.kinds:
                        told = best(turns[kind, keys, writers])
                        teller.say(
                            f"{kind}, {told.keys:,} keys, {writers} writers: {told.writes_per_s:,.0f} puts/s, "
                            f"{told.reads_per_s:,.0f} gets/s, open again in {told.recovery_ms:,.1f} ms"
                        )
    except ServerError as error:
        raise BenchmarkError(str(error)) from error
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report({key: best(each) for key, each in turns.items()}, options)

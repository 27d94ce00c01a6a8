"""kill -9 at every point of an evolution and of a load, then a new start: all of it is there, or nothing, and once."""

from __future__ import annotations

import dataclasses
import random
import signal

import pyarrow as pa
import pytest

from millpond import Counter, Map, Partitioned, Program, entry, parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.upkeep import rescale
from millpond.engine.simulated import Simulated
from millpond.storage.backends.files import FileStorage
from tests.children import in_child
from tests.programs.keyed import committed_state, fresh_seed, say
from tests.sizes import compile_once

POINTS = (
    "epoch.offered",
    "delta.written",
    "epoch.computed",
    "segment.written",
    "manifest.staged",
    "manifest.linked",
    "manifest.committed",
    "publish.started",
    "publish.finished",
)
SEED = pa.table({"key": list(range(50)), "value": [f"seed {n}" for n in range(50)]})
EPOCH_ROWS = 12

pytestmark = pytest.mark.slow


@dataclasses.dataclass
class Item:
    name: str
    price: int


@dataclasses.dataclass
class Priced:
    name: str
    cost: float
    tags: list[str] = dataclasses.field(default_factory=list)


class First(Program):
    names = Partitioned(Map[int, str])
    items = Partitioned(Map[int, Item])
    old = Partitioned(Counter[int])

    @entry
    def put(self, user: int, price: int) -> str:
        self.old[user] += 1
        self.items[user] = Item(self.names.get(user, "?"), price)
        return self.items[user].name


class Second(Program, dropped=("old",)):
    names = Partitioned(Map[int, str])
    goods = Partitioned(Map[int, Priced], was="items", renamed={"price": "cost"})
    keyed = Partitioned(Map[str, int])

    @entry
    def put(self, user: int, price: int) -> str:
        self.goods[user] = Priced(self.names.get(user, "?"), float(price), ["again"])
        return self.goods[user].name


class Third(Program):
    names = Partitioned(Map[str, int], migrate=lambda key, old: (old, key))
    goods = Partitioned(Map[int, Priced])
    keyed = Partitioned(Map[str, int])
    fresh = Partitioned(Map[int, int])

    @entry
    def put(self, user: int, price: int) -> str:
        self.fresh[user] = price
        return str(self.names.get(f"seed {user}", -1))


PROGRAMS = tuple(map(compile_once, (First, Second, Third)))
ALL = EPOCH_ROWS * len(PROGRAMS)
ROWS = [("put", (n * 7 % 60, n)) for n in range(ALL)]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    monkeypatch.setattr(rescale, "CHUNK_BYTES", 300)


def head_of(folder):
    storage = FileStorage(folder / "checkpoint")
    genesis = read_genesis(storage)
    found = None if genesis is None else last_manifest(storage, genesis[1])
    return None if found is None else found[0]


def fed_rows(folder):
    head = head_of(folder)
    return 0 if head is None else sum(n for name, n in head.counters.items() if name.startswith("total.fed."))


def go_on(folder, until=ALL):
    """Load, then feed the rows that are not committed yet, each epoch with the program that belongs to it."""
    fed = 0
    while fed < until:
        fed = fed_rows(folder)
        program = PROGRAMS[min(fed, until - 1) // EPOCH_ROWS]
        sinks = {name: parquet(folder / name) for name in program.entries}
        simulated = Simulated(program, folder, 2, 16, sinks=sinks)
        if fed == 0:
            simulated.load("names", SEED)
        if fed < until:
            simulated.epoch(ROWS[fed : fed + EPOCH_ROWS])


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert in_child(lambda: go_on(folder)) == 0
    return committed_state(folder / "checkpoint")


def test_the_undisturbed_run_ends_as_plain_python(wanted):
    """What the programs leave, one after the other, as a model says it."""
    goods = {}
    for at, (_, (user, price)) in enumerate(ROWS[: 2 * EPOCH_ROWS]):
        goods[user] = Priced(f"seed {user}" if user < 50 else "?", float(price), ["again"] * (at >= EPOCH_ROWS))
    third = PROGRAMS[2].elements
    decoded = {"names": {}, "goods": {}, "fresh": {}}
    places = {0: "names", 1: "goods", 3: "keyed"}
    for key, value in wanted.items():
        name = places.get(key[0], "fresh")
        element = third[name].type
        decoded[name][element.keys.decode(key[3:])] = element.values.decode(value)
    assert decoded["names"] == {f"seed {n}": n for n in range(50)}
    assert decoded["goods"] == goods
    assert decoded["fresh"] == {user: price for _, (user, price) in ROWS[2 * EPOCH_ROWS :]}


@pytest.mark.parametrize(
    "occurrence", [1, 2, *(pytest.param(later, marks=pytest.mark.campaign) for later in (3, 4, 5, 6))]
)
@pytest.mark.parametrize("point", POINTS)
def test_a_start_after_a_kill_at_any_point_finishes(tmp_path, wanted, point, occurrence):
    in_child(lambda: go_on(tmp_path), f"{point}:{occurrence}")
    assert in_child(lambda: go_on(tmp_path)) == 0
    assert committed_state(tmp_path / "checkpoint") == wanted
    head = head_of(tmp_path)
    assert head.loads == ("names",)
    assert head.epoch == 1 + 3 + 2


def test_many_kills_in_a_row_lose_nothing(tmp_path, wanted):
    rng = random.Random(fresh_seed())
    for _ in range(12):
        crash_at = f"{rng.choice(POINTS)}:{rng.randrange(1, 4)}"
        say(crash_at)
        assert in_child(lambda: go_on(tmp_path), crash_at) in (-signal.SIGKILL, 0)
    assert in_child(lambda: go_on(tmp_path)) == 0
    assert committed_state(tmp_path / "checkpoint") == wanted
    assert head_of(tmp_path).epoch == 1 + 3 + 2

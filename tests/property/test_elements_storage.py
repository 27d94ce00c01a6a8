"""Programs whose elements have storages of their own, beside plain Python: what lies where, and all else as ever."""

from __future__ import annotations

import copy
import random
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from millpond import Counter, List, Map, Partial, Partitioned, Program, entry, on_timer
from millpond.checkpoint.read.entries import entries
from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records import deltas
from millpond.checkpoint.recovery import read_changes
from millpond.checkpoint.repairing import repair
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.snapshots import compaction, snapshots
from millpond.compiler.compile import compile_program
from millpond.engine import plan
from millpond.engine.plan import Level
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.local.storekey import element_of
from millpond.storage.composed.elements import ElementsStorage
from millpond.storage.composed.layered import TrialStorage
from millpond.storage.open import open_storage
from tests.programs.keyed import fresh_seed

SECOND = 1_000_000
START = 1_700_000_000_000_000


class Shop(Program):
    stock = Partitioned(Map[str, int])
    blobs = Partitioned(Map[int, bytes])
    seen = Partial(Counter[str], merge=sum)
    log = Partitioned(List[str])

    @entry
    def put(self, item: str, n: int) -> None:
        self.stock[item] = self.stock.get(item, 0) + n
        if self.stock[item] == 0:
            del self.stock[item]

    @entry
    def blob(self, key: int, value: bytes) -> None:
        self.blobs[key] = value

    @entry
    def see(self, word: str) -> None:
        self.seen[word] += 1

    @entry
    def note(self, line: str) -> None:
        self.log.append(line)


class Timed(Program):
    counts = Partitioned(Counter[str])
    fired = Partitioned(Map[str, int])

    @entry
    def hit(self, key: str) -> None:
        self.counts[key] += 1
        self.over.set(key, self.now + timedelta(seconds=2))

    @on_timer
    def over(self, key: str, at: datetime) -> None:
        self.fired[key] = self.fired.get(key, 0) + self.counts.pop(key, 0)


@dataclass
class Places:
    """The address, and the elements that lie in each of its folders; those of the home are all others."""

    url: str
    where: dict[str, tuple[str, ...]]


def two_places(folder):
    return Places(
        f"elements://{folder}/home|blobs=log://{folder}/large|stock,seen={folder}/fast",
        {"large": ("blobs",), "fast": ("stock", "seen")},
    )


def random_row(rng):
    word = rng.choice("abcdef")
    return rng.choice(
        (
            ("put", (word, rng.randrange(-3, 4))),
            ("blob", (rng.randrange(40), rng.randbytes(rng.randrange(60)))),
            ("see", (word,)),
            ("note", (word,)),
        )
    )


def plain_state(shop):
    return {
        "stock": dict(shop.stock.items()),
        "blobs": dict(shop.blobs.items()),
        "seen": dict(shop.seen.items()),
        "log": dict(enumerate(shop.log)),
    }


def read(history, epoch=None):
    point = history.point(epoch)
    found = {}
    for schema in point.elements:
        held = found.setdefault(schema.name, {})
        for one in entries(history, point, schema.name):
            held[one.key] = held[one.key] + one.value if schema.name == "seen" and one.key in held else one.value
    return found


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Everything that is otherwise done to large states: files of tasks, snapshots, and several chunks of these."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(compaction, "FILE_BYTES", 400)
    monkeypatch.setattr(deltas, "FILE_BYTES", 300)


@pytest.fixture(params=["in tasks", "in segments"])
def _written(request, monkeypatch):
    if request.param == "in tasks":
        monkeypatch.setattr(working, "INLINE_ENTRIES_MAX", 0)
        monkeypatch.setattr(plan, "INLINE_ENTRIES_MAX", 0)


def elements_in(storage, history):
    """The elements that the files of each root hold, by the root's last name."""
    names = [schema.name for schema in history.point().elements]
    found = {}
    for epoch in history.epochs:
        manifest, _ = history.manifest(epoch)
        for state in (*manifest.snapshot, *(file for delta in manifest.deltas for file in delta.files)):
            (root,) = [root for root in storage._roots if root.storage.contains(state.file.name)]
            keys, _ = read_changes(storage, state)
            found.setdefault(root.shown.rpartition("/")[2], set()).update(names[element_of(key)] for key in keys)
    return found


@pytest.mark.usefixtures("_written")
def test_every_file_lies_where_its_elements_go_and_the_state_is_that_of_plain_python(tmp_path):
    rng = random.Random(fresh_seed())
    places = two_places(tmp_path / "ck")
    compiled, plain, models = compile_program(Shop), Shop(), {}
    for partitions in (3, 1, 2):
        simulated = Simulated(compiled, tmp_path / "run", partitions=partitions, checkpoint=places.url, keep=None)
        for _ in range(4):
            rows = [random_row(rng) for _ in range(40)]
            for name, arguments in rows:
                getattr(plain, name)(*arguments)
            simulated.epoch(rows)
            models[len(models) + 1] = copy.deepcopy(plain_state(plain))
        shutil.rmtree(tmp_path / "run")
    storage = open_storage(places.url)
    history = History(storage)
    assert {epoch: read(history, epoch) for epoch in models} == models
    assert history.point().manifest.snapshot_epoch > 0
    assert elements_in(storage, history) == {"home": {"log"}, "large": {"blobs"}, "fast": {"stock", "seen"}}
    assert verify(storage, everything=True).problems == []


def test_places_change_between_runs_and_compaction_moves_what_changes(tmp_path):
    rng = random.Random(fresh_seed())
    folder = tmp_path / "ck"
    addresses = (
        str(folder / "home"),
        two_places(folder).url,
        f"elements://{folder}/home|log,blobs={folder}/fast|log://{folder}/large",
    )
    compiled, plain = compile_program(Shop), Shop()
    for url in addresses:
        simulated = Simulated(compiled, tmp_path / "run", partitions=2, checkpoint=url, keep=Keep(last=2, grace="0 s"))
        for _ in range(30):
            rows = [("blob", (rng.randrange(40), rng.randbytes(40))), *(random_row(rng) for _ in range(10))]
            for name, arguments in rows:
                getattr(plain, name)(*arguments)
            simulated.epoch(rows)
        storage = open_storage(url)
        assert read(History(storage)) == plain_state(plain)
        assert verify(storage, everything=True).problems == []
    # A root that is left out is missed by name.
    with pytest.raises(MillpondError, match=r"MP35[35]|MP304"):
        read(History(open_storage(addresses[0])))


def test_timers_go_with_their_handler(tmp_path):
    folder = tmp_path / "ck"
    url = f"elements://{folder}/home|over=log://{folder}/fast"
    simulated = Simulated(compile_program(Timed), tmp_path / "run", partitions=2, checkpoint=url, keep=None)
    for number in range(8):
        with epoch_time(START + number * SECOND):
            simulated.epoch([("hit", ("ab"[number % 2],))])
    with epoch_time(START + 60 * SECOND):
        simulated.tick()
    storage = open_storage(url)
    history = History(storage)
    assert elements_in(storage, history) == {"home": {"counts", "fired"}, "fast": {"over", "over.due"}}
    assert {one.key: one.value for one in entries(history, history.point(), "fired")} == {"a": 4, "b": 4}


@pytest.mark.parametrize("level", [Level.REPLAY, Level.EXACTLY_ONCE])
def test_levels_of_durability_and_rescales_do_not_mind(tmp_path, level):
    rng = random.Random(fresh_seed())
    url = two_places(tmp_path / "ck").url
    compiled, plain = compile_program(Shop), Shop()
    for instances in (4, 2):
        simulated = Simulated(
            compiled, tmp_path / "run", partitions=2, checkpoint=url, durability=level, instances=instances
        )
        for _ in range(5):
            rows = [random_row(rng) for _ in range(15)]
            for name, arguments in rows:
                getattr(plain, name)(*arguments)
            simulated.epoch(rows)
    Simulated(compiled, tmp_path / "run", partitions=2, checkpoint=url).epoch([])
    assert read(History(open_storage(url))) == plain_state(plain)


class Grown(Program):
    goods = Partitioned(Map[str, float], was="stock")
    blobs = Partitioned(Map[int, bytes])
    seen = Partial(Counter[str], merge=sum)
    log = Partitioned(List[str])
    extra = Partitioned(Map[int, int])

    @entry
    def add(self, key: int) -> None:
        self.extra[key] = self.extra.get(key, 0) + 1
        self.goods["extra"] = self.goods.get("extra", 0.0) + 1.0


def test_new_and_renamed_elements_have_their_places(tmp_path):
    rng = random.Random(fresh_seed())
    folder, plain = tmp_path / "ck", Shop()
    simulated = Simulated(compile_program(Shop), tmp_path / "run", checkpoint=two_places(folder).url)
    rows = [random_row(rng) for _ in range(60)]
    for name, arguments in rows:
        getattr(plain, name)(*arguments)
    simulated.epoch(rows)
    url = f"elements://{folder}/home|extra=log://{folder}/large|goods={folder}/fast"
    grown = Simulated(compile_program(Grown), tmp_path / "run", checkpoint=url, adopt=True)
    for number in range(8):
        grown.epoch([("add", (number,))])
    storage = open_storage(url)
    history = History(storage)
    found = read(history)
    assert found["goods"] == {**{k: float(n) for k, n in plain.stock.items()}, "extra": 8.0}
    assert (found["extra"], found["blobs"]) == (dict.fromkeys(range(8), 1), dict(plain.blobs.items()))
    newest = history.point().manifest.deltas[-1].files
    names = [None if schema is None else schema.name for schema in history.point().elements]
    for state in newest:
        (root,) = [root for root in storage._roots if root.storage.contains(state.file.name)]
        held = {names[element_of(key)] for key in read_changes(storage, state)[0]}
        assert held == {{"large": "extra", "fast": "goods"}[root.shown.rpartition("/")[2]]}


def test_an_element_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    url = f"elements://{tmp_path}/home|stok={tmp_path}/fast"
    with pytest.raises(MillpondError, match="MP360") as caught:
        Simulated(compile_program(Shop), tmp_path / "run", checkpoint=url)
    assert "stok" in str(caught.value)
    assert not (tmp_path / "home").exists()


def test_a_chunk_of_a_place_is_made_again_byte_for_byte(tmp_path):
    rng = random.Random(5)
    url = two_places(tmp_path / "ck").url
    simulated = Simulated(compile_program(Shop), tmp_path / "run", partitions=2, checkpoint=url, keep=None)
    for _ in range(6):
        simulated.epoch([random_row(rng) for _ in range(40)])
    storage = open_storage(url)
    assert isinstance(storage, ElementsStorage)
    before = read(History(storage))
    chunks = {state.file.name: state.file for state in History(storage).point().manifest.snapshot}
    assert all(any(map(root.storage.contains, chunks)) for root in storage._roots)
    for name in chunks:
        good = storage.get(name)
        storage.delete(name)
        storage.put(name, good[:-1])
    trial = repair(TrialStorage(open_storage(url)))
    assert sorted(trial.rebuilt) == sorted(chunks)
    done = repair(open_storage(url))
    assert (sorted(done.rebuilt), done.healthy) == (sorted(chunks), True)
    assert read(History(open_storage(url))) == before

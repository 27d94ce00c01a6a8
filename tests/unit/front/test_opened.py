"""`millpond.open`: what a program left in its checkpoint, read as the program has it, without Spark."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import subprocess
import sys

import pyarrow as pa
import pytest

import millpond
from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, entry
from millpond.checkpoint.read.entries import Change, Kind
from millpond.checkpoint.retention.savepoints import add_savepoint
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, ReadError, StateError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.storage.backends.files import FileStorage
from tests.sizes import compile_once

START = 1_700_000_000_000_000


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Account:
    owner: str
    balance: int


@dataclasses.dataclass(frozen=True)
class Place:
    street: str
    number: int


class Town(Program):
    accounts = Partitioned(Map[str, Account])
    places = Partitioned(Map[Place, int])
    colours = Partitioned(Map[Colour, int])
    fresh = Partitioned(Map[str, datetime.date], ttl="10 s")
    names = Partitioned(Set[str])
    log = Partitioned(List[str])
    total = Partitioned(Value[int])
    visits = Partial(Counter[str], merge=sum)
    likes = Partial(Map[str, int])
    tags = Partial(Set[str])
    roads = Partial(Matrix[int, int, float], merge=sum)

    @entry
    def pay(self, name: str, amount: int) -> None:
        account = self.accounts.get(name) or Account(name, 0)
        account.balance += amount
        self.accounts[name] = account
        self.places[Place(name, amount)] = amount
        self.colours[Colour.RED if amount % 2 else Colour.BLUE] = amount
        self.fresh[name] = datetime.date(2024, 1, amount)
        self.names.add(name)
        self.log.append(name)
        self.total.set(self.total.get(0) + amount)

    @entry
    def visit(self, name: str) -> None:
        self.visits[name] += 1
        self.likes[name] = 7
        self.tags.add(name)
        self.roads[len(name), 1] += 0.5


ROWS = [
    [("pay", ("ann", 1)), ("visit", ("ann",)), ("visit", ("bob",))],
    [("pay", ("bob", 2)), ("visit", ("ann",)), ("visit", ("eve",))],
    [("pay", ("ann", 3)), ("visit", ("bob",)), ("visit", ("ann",))],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three epochs, six seconds apart."""
    folder = tmp_path_factory.mktemp("town")
    simulated = Simulated(compile_once(Town), folder, partitions=2)
    for number, rows in enumerate(ROWS):
        with epoch_time(START + 6_000_000 * number):
            simulated.epoch(rows)
    return folder / "checkpoint"


@pytest.fixture
def town(folder):
    with millpond.open(folder, Town) as checkpoint:
        yield checkpoint


@pytest.fixture
def plain(folder):
    with millpond.open(str(folder)) as checkpoint:
        yield checkpoint


def test_a_checkpoint_names_its_elements_and_epochs(town):
    assert list(town)[:3] == ["accounts", "places", "colours"]
    assert (town.epoch, town.epochs, "log" in town, "lag" in town) == (3, (1, 2, 3), True, False)
    assert repr(town["accounts"]).endswith("at epoch 3>")
    with pytest.raises(StateError, match="MP240"):
        town["lag"]


def test_values_and_keys_are_of_the_classes_of_the_program(town):
    assert town["accounts"].get("ann") == Account("ann", 4)
    assert town["accounts"]["bob"] == Account("bob", 2)
    assert dict(town["places"].items()) == {Place("ann", 1): 1, Place("bob", 2): 2, Place("ann", 3): 3}
    assert town["places"].get(Place("ann", 3)) == 3
    assert town["places"].get(Place("ann", 4), "none") == "none"
    assert dict(town["colours"].items()) == {Colour.RED: 3, Colour.BLUE: 2}
    assert list(town["colours"].scan(Colour.BLUE, Colour.RED)) == [(Colour.BLUE, 2)]


def test_without_the_program_values_are_what_they_are_made_of(plain):
    assert plain["accounts"].get("ann") == {"owner": "ann", "balance": 4}
    assert plain["places"].get(("ann", 3)) == 3
    assert plain["colours"].get("red") == 3


def test_what_is_stored_with_a_time_to_live_stays_behind(town, plain):
    for table in (town["fresh"], plain["fresh"]):
        assert dict(table.items()) == {"ann": datetime.date(2024, 1, 3), "bob": datetime.date(2024, 1, 2)}
        assert table.at(1).get("ann") == datetime.date(2024, 1, 1)
        assert table.to_arrow().schema.field("value").type == pa.date32()
        assert [change[3:] for change in table.diff(1) if change.key == "ann"] == [
            ("ann", datetime.date(2024, 1, 1), datetime.date(2024, 1, 3))
        ]


def test_every_container_has_its_form(town):
    assert sorted(town["names"]) == ["ann", "bob"]
    assert town["names"].get("ann") is True
    assert "eve" not in town["names"]
    assert list(town["log"].items()) == [(0, "ann"), (1, "bob"), (2, "ann")]
    assert town["log"][1] == "bob"
    assert town["total"].get() == 6
    assert len(town["log"]) == 3


def test_a_key_that_is_none_is_refused(town):
    with pytest.raises(StateError, match="MP207"):
        town["accounts"].get(1)
    with pytest.raises(StateError, match="MP241"):
        town["total"].get("ann")
    with pytest.raises(StateError, match="MP241"):
        town["accounts"].get()
    with pytest.raises(KeyError):
        town["accounts"]["eve"]


def test_partial_state_is_merged_by_the_program(town):
    visits = town["visits"]
    assert dict(visits.items()) == {"ann": 3, "bob": 2, "eve": 1}
    assert [visits.get(name) for name in ("ann", "bob", "eve", "dan")] == [3, 2, 1, None]
    assert dict(town["roads"].items()) == {3: {1: 3.0}}
    assert town["roads"].get(3) == {1: 3.0}
    assert visits.to_arrow().sort_by("key").to_pylist() == [
        {"key": "ann", "value": 3},
        {"key": "bob", "value": 2},
        {"key": "eve", "value": 1},
    ]


def test_partial_state_without_a_merge_is_read_by_instances_or_merged_by_the_reader(town, plain):
    for checkpoint in (town, plain):
        likes = checkpoint["likes"]
        with pytest.raises(ReadError, match="MP833"):
            likes.get("ann")
        with pytest.raises(ReadError, match="MP833"):
            list(likes.items())
        assert {"ann", "bob", "eve"} == {key for at in range(likes.instances) for key in likes.instance(at)}
        most = likes.merged(lambda held: max(one or 0 for one in held))
        assert dict(most.items()) == {"ann": 7, "bob": 7, "eve": 7}
        assert likes.to_arrow().schema.names == ["instance", "key", "value"]
        assert len(likes.to_arrow()) == sum(len(likes.instance(at)) for at in range(likes.instances))
        with pytest.raises(StateError, match="MP243"):
            likes.instance(likes.instances)
        with pytest.raises(ReadError, match="MP832"):
            checkpoint["accounts"].merged(sum)
    both = plain["tags"].merged(lambda sets: set().union(*sets))
    assert (sorted(both), both.get("eve"), both.get("dan", 0)) == (["ann", "bob", "eve"], True, 0)
    assert dict(plain["visits"].merged(sum).items()) == {"ann": 3, "bob": 2, "eve": 1}


def test_an_epoch_is_a_number_or_a_savepoint_or_the_newest(folder, town):
    accounts = town["accounts"]
    assert accounts.at(1).get("ann") == Account("ann", 1)
    assert accounts.at(1).at().epoch == 3
    assert list(town.at(0)["accounts"].items()) == []
    with pytest.raises(EpochError, match="MP450"):
        town.at(9)
    add_savepoint(FileStorage(folder), "payday", 2)
    assert accounts.at("payday").get("bob") == Account("bob", 2)
    assert town["visits"].at(1).get("ann") == 1


def test_differences_are_told_with_the_types_of_the_program(town):
    found = {change.key: change for change in town["accounts"].diff(1)}
    assert found == {
        "ann": Change(3, Kind.CHANGED, None, "ann", Account("ann", 1), Account("ann", 4)),
        "bob": Change(3, Kind.ADDED, None, "bob", None, Account("bob", 2)),
    }


def test_merged_differences_are_of_what_is_merged(town):
    found = {change.key: (change.kind, change.old, change.new) for change in town["visits"].diff(1)}
    assert found == {
        "ann": (Kind.CHANGED, 1, 3),
        "bob": (Kind.CHANGED, 1, 2),
        "eve": (Kind.ADDED, None, 1),
    }
    assert [change.kind for change in town["visits"].diff(3, 0)] == [Kind.REMOVED] * 3


def test_tables_are_arrow_with_columns_of_the_programs_types(town, plain):
    table = town["accounts"].to_arrow()
    assert table.schema.field("value").type == pa.struct([("owner", pa.string()), ("balance", pa.int64())])
    assert sorted(table.to_pylist(), key=str) == [
        {"key": "ann", "value": {"owner": "ann", "balance": 4}},
        {"key": "bob", "value": {"owner": "bob", "balance": 2}},
    ]
    assert plain["accounts"].to_arrow().schema.field("value").type == pa.string()
    assert town["places"].to_arrow().schema.field("key").type == pa.struct(
        [("street", pa.string()), ("number", pa.int64())]
    )
    frame = town["colours"].to_pandas().sort_values("value")
    assert frame.to_dict("list") == {"key": ["blue", "red"], "value": [2, 3]}
    assert pa.table(town["total"]).to_pylist() == [{"value": 6}]
    assert pa.RecordBatchReader.from_stream(town["names"]).read_all().column_names == ["key"]


def test_a_program_that_declares_something_else_is_refused(folder):
    class Town2(Program):
        accounts = Partitioned(Map[str, int])

        @entry
        def pay(self, name: str) -> None:
            self.accounts[name] = 1

    with pytest.raises(ReadError, match="MP830"):
        millpond.open(folder, Town2)["accounts"]
    with pytest.raises(ReadError, match="MP831"):
        millpond.open(folder, Town2())
    assert millpond.open(folder, Town2)["total"].get() == 6


def test_no_spark_is_loaded(folder):
    code = (
        "import sys, millpond; "
        f"print(millpond.open({str(folder)!r})['total'].get(), [m for m in sys.modules if m.startswith('pyspark')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "6 []\n"


def test_polars_and_duckdb_take_state_as_arrow(town):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    names = town["log"]
    assert polars.from_arrow(names.to_arrow()).rows() == list(names.items())
    assert sorted(polars.DataFrame(names).rows()) == sorted(names.items())
    visits = town["visits"]
    many = duckdb.from_arrow(visits.reader()).filter("value > 1").fetchall()
    assert many
    assert sorted(many) == sorted((key, value) for key, value in visits.items() if value > 1)
    assert names.to_pandas().to_dict("list") == {"key": list(names.keys()), "value": list(names.values())}

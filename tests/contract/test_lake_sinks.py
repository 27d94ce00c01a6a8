"""Delta and Iceberg tables: the contract, upserts, drivers that race, and tables that are of another kind."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from millpond.engine.publish.deadletters import DEAD_LETTER_SCHEMA, BadRow, letter_table
from millpond.errors import SinkError
from millpond.sinks import Token, delta, iceberg
from millpond.testing.sinks import check_sink
from tests.contract.stages import staged

TOKEN = Token("0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 1)
NEW = Token("1b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 1)


class Delta:
    """How a Delta table is written and read in tests."""

    def __init__(self, folder):
        self.path = folder / "table"

    def sink(self, **how):
        return delta(self.path, **how)

    def rows(self, _sink=None):
        exists = (self.path / "_delta_log").exists()
        return DeltaTable(self.path).to_pyarrow_table().to_pylist() if exists else []

    def commits(self):
        return len(DeltaTable(self.path).history())


class Iceberg:
    """Likewise an Iceberg table, in a catalog that is a file."""

    def __init__(self, folder):
        self.options = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}

    def sink(self, **how):
        return iceberg("shop.replies", catalog="tests", options=self.options, **how)

    def _table(self):
        catalog = load_catalog("tests", **self.options)
        return catalog.load_table("shop.replies") if catalog.table_exists("shop.replies") else None

    def rows(self, _sink=None):
        table = self._table()
        return [] if table is None else table.scan().to_arrow().to_pylist()

    def commits(self):
        return len(self._table().snapshots())


@pytest.fixture(params=[Delta, Iceberg], ids=["delta", "iceberg"])
def lake(request, tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return request.param(folder)


def of_epoch(token, epoch):
    return Token(token.checkpoint, token.lineage, token.sink, epoch)


def test_contract(lake, tmp_path):
    check_sink(lake.sink, lake.rows, tmp_path / "work")


def test_contract_of_upserts(lake, tmp_path):
    # The contract's last claim is that a fork adds rows of its own, which have the key of its base's here.
    with pytest.raises(AssertionError, match="the same rows in the same epoch of a fork: readers do not see"):
        check_sink(lambda: lake.sink(mode="upsert", key=["n"]), lake.rows, tmp_path / "work")


def test_the_last_row_of_a_key_stays(lake, tmp_path):
    sink = lake.sink(mode="upsert", key=["k", "j"])
    first = {"k": [1, 1, 2], "j": ["x", "x", "x"], "v": ["a", "b", "c"]}
    sink.publish(TOKEN, staged(tmp_path, TOKEN, first, {"k": [2], "j": ["x"], "v": ["d"]}))
    token = of_epoch(TOKEN, 2)
    sink.publish(token, staged(tmp_path, token, {"k": [1, 1], "j": ["x", "y"], "v": ["e", "f"]}))
    found = sorted((row["k"], row["j"], row["v"]) for row in lake.rows())
    assert found == [(1, "x", "e"), (1, "y", "f"), (2, "x", "d")]


def test_a_new_checkpoint_with_the_same_table_loses_nothing(lake, tmp_path):
    for token in (TOKEN, of_epoch(TOKEN, 2), NEW):
        lake.sink().publish(token, staged(tmp_path, token, {"n": [token.epoch]}))
    assert sorted(row["n"] for row in lake.rows()) == [1, 1, 2]


def test_an_epoch_that_comes_again_with_other_files_after_a_repair_is_new(lake, tmp_path):
    sink = lake.sink()
    for epoch in (1, 2):
        sink.publish(token := of_epoch(TOKEN, epoch), staged(tmp_path, token, {"n": [epoch]}))
    (tmp_path / "again").mkdir()
    files = staged(tmp_path / "again", of_epoch(TOKEN, 2), {"n": [3]}, {"n": [4]})
    assert not sink.recover(of_epoch(TOKEN, 2), [file.token for file in files.files])
    sink.publish(of_epoch(TOKEN, 2), files)
    assert sorted(row["n"] for row in lake.rows()) == [1, 2, 3, 4]


def test_dead_letters_are_taken_and_given_again(lake, tmp_path):
    bad = [BadRow(0, "no such item", '{"n": 1}', 0, "topic 0", at) for at in (1, 2)]
    letters = letter_table(bad, "add", "add", 1, ordered=False)
    sink = lake.sink()
    assert sink.held(DEAD_LETTER_SCHEMA) is None
    sink.publish(TOKEN, staged(tmp_path, TOKEN, letters))
    held = sink.held(DEAD_LETTER_SCHEMA)
    assert held.schema == DEAD_LETTER_SCHEMA
    assert held.to_pylist() == letters.to_pylist()


def test_an_epoch_is_one_commit(lake, tmp_path):
    sink = lake.sink()
    for epoch in (1, 2, 3):
        token = of_epoch(TOKEN, epoch)
        sink.publish(token, staged(tmp_path, token, {"n": [1]}, {"n": [2]}))
    assert lake.commits() == 3


@pytest.mark.parametrize("how", [{}, {"mode": "upsert", "key": ["n"]}], ids=["append", "upsert"])
def test_drivers_that_race_with_the_same_epoch_write_it_once(lake, tmp_path, how):
    lake.sink().publish(NEW, staged(tmp_path, NEW, {"n": [-1]}))
    files, failed = staged(tmp_path, TOKEN, {"n": list(range(100))}), []

    def drive():
        try:
            lake.sink(**how).publish(TOKEN, files)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    drivers = [threading.Thread(target=drive) for _ in range(3)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert failed == []
    assert sorted(row["n"] for row in lake.rows()) == list(range(-1, 100))


def test_drivers_of_two_jobs_that_race_write_both(lake, tmp_path):
    lake.sink().publish(NEW, staged(tmp_path, NEW, {"n": [-1]}))
    failed = []

    def drive(number):
        token = Token(f"{number}b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a22", (), "add.replies", 1)
        try:
            lake.sink().publish(token, staged(tmp_path, token, {"n": [number]}))
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    drivers = [threading.Thread(target=drive, args=(number,)) for number in range(3)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert failed == []
    assert sorted(row["n"] for row in lake.rows()) == [-1, 0, 1, 2]


def test_rows_of_another_kind_are_refused_and_leave_nothing(lake, tmp_path):
    lake.sink().publish(TOKEN, staged(tmp_path, TOKEN, {"n": [1]}))
    token = of_epoch(TOKEN, 2)
    with pytest.raises(SinkError) as caught:
        lake.sink().publish(token, staged(tmp_path, token, {"n": ["text"]}))
    assert caught.value.code in {"MP808", "MP809"}
    assert lake.rows() == [{"n": 1}]


def test_files_of_a_folder_are_named_as_they_are_and_others_are_written_anew(tmp_path):
    table = tmp_path / "table"
    (table / "_staged").mkdir(parents=True)
    sink = delta(table)
    for epoch in (1, 2, 3):
        token = of_epoch(TOKEN, epoch)
        files = staged(table / "_staged", token, {"n": [epoch]} if epoch < 3 else {"n": pa.array([epoch], pa.int32())})
        sink.publish(token, files)
        assert (table / files.files[0].path.name).exists() is (epoch == 2)
    assert sorted(row["n"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()) == [1, 2, 3]


def test_a_partitioned_table_keeps_its_partitions(tmp_path):
    table = tmp_path / "table"
    write_deltalake(table, pa.table({"day": ["a"], "n": [0]}), partition_by=["day"])
    (table / "_staged").mkdir()
    delta(table).publish(TOKEN, staged(table / "_staged", TOKEN, {"day": ["a", "b"], "n": [1, 2]}))
    found = DeltaTable(table)
    assert sorted(row["n"] for row in found.to_pyarrow_table().to_pylist()) == [0, 1, 2]
    assert {file.split("/")[0] for file in (uri.partition("table/")[2] for uri in found.file_uris())} == {
        "day=a",
        "day=b",
    }


def test_the_commit_names_its_token(tmp_path):
    delta(tmp_path / "t").publish(TOKEN, staged(tmp_path, TOKEN, {"n": [1]}))
    table = DeltaTable(tmp_path / "t")
    assert table.history(1)[0]["millpond"] == str(TOKEN)
    assert table.transaction_version(TOKEN.writer) == 1

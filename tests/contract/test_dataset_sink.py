"""Parquet on object stores, joined and in partitions: the contract, names that Hive knows, and whole epochs."""

from __future__ import annotations

import datetime
import io

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from millpond import foreach_epoch, parquet
from millpond.errors import SinkError
from millpond.sinks import Token
from millpond.sinks.missing import client
from millpond.storage.open import open_storage
from millpond.testing.sinks import check_sink
from tests.contract.conftest import s3_url
from tests.contract.stages import staged

TOKEN = Token("0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 1)


def objects_in(url):
    storage = open_storage(url)
    names = [name for name in storage.list("") if not name.startswith("_")]
    return [row for name in names for row in pq.read_table(io.BytesIO(storage.get(name))).to_pylist()]


@pytest.mark.parametrize("how", [{}, {"join": True}], ids=["apart", "joined"])
def test_contract_on_an_object_store(s3_endpoint, tmp_path, how):
    url = s3_url(s3_endpoint)
    check_sink(lambda: parquet(url, **how), lambda _: objects_in(url), tmp_path)


def rows_in_folders(folder):
    """All rows, with the columns of the contract in their order."""
    partitions = ds.partitioning(flavor="hive", schema=None)
    rows = (
        ds.dataset(folder, format="parquet", partitioning=partitions).to_table().to_pylist() if folder.exists() else []
    )
    return [{name: row[name] for name in ("n", "text", "amount", "nested")} for row in rows]


@pytest.mark.parametrize("join", [False, True])
def test_contract_in_partitions(tmp_path, join):
    out = tmp_path / "out"
    check_sink(
        lambda: parquet(out, partition_by=["text"], join=join), lambda _: rows_in_folders(out), tmp_path / "work"
    )


def test_contract_of_joined_files(tmp_path):
    out = tmp_path / "out"
    check_sink(lambda: parquet(out, join=True), lambda _: rows_in_folders(out), tmp_path / "work")


def test_folders_are_named_as_hive_does_it(tmp_path):
    table = {"day": [datetime.date(2026, 1, 2)] * 3, "city": ["a/b ü", "", None], "n": [1, 2, 3]}
    parquet(tmp_path / "out", partition_by=["day", "city"]).publish(TOKEN, staged(tmp_path, TOKEN, table))
    folders = {str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*/*.parquet")}
    assert {name for name in folders if not name.startswith("_")} == {
        "day=2026-01-02/city=a%2Fb%20%C3%BC",
        "day=2026-01-02/city=",
        "day=2026-01-02/city=__HIVE_DEFAULT_PARTITION__",
    }


def test_an_epoch_that_is_joined_is_one_file(tmp_path):
    sink = parquet(tmp_path / "out", join=True)
    sink.publish(TOKEN, staged(tmp_path, TOKEN, *({"n": [number]} for number in range(5))))
    (one,) = (tmp_path / "out").glob("*.parquet")
    assert [row["n"] for row in pq.read_table(one).to_pylist()] == [0, 1, 2, 3, 4]


def test_notes_of_earlier_epochs_go(tmp_path):
    sink = parquet(tmp_path / "out", partition_by=["k"])
    for epoch in (1, 2, 3):
        token = Token(TOKEN.checkpoint, (), TOKEN.sink, epoch)
        sink.publish(token, staged(tmp_path, token, {"k": [epoch], "n": [1]}))
    assert len(list((tmp_path / "out" / "_millpond").iterdir())) == 1


def test_a_column_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SinkError) as caught:
        parquet(tmp_path / "out", partition_by=["day"]).publish(TOKEN, staged(tmp_path, TOKEN, {"n": [1]}))
    assert caught.value.code == "MP803"


def test_a_function_with_three_parameters_gets_the_token(tmp_path):
    given = []
    sink = foreach_epoch(lambda rows, epoch, token: given.append((rows, epoch, token)))
    for files in ([{"n": [1]}], [{"n": [1]}, {"n": [2]}]):
        handed = staged(tmp_path, TOKEN, *files)
        for _ in range(2):
            sink.publish(TOKEN, type(handed)(handed.files, frames=len))
    tokens = [token for _, _, token in given]
    assert tokens[0] == tokens[1] != tokens[2] == tokens[3]
    assert all(Token.parse(str(token)) == token for token in tokens)
    assert given[2][:2] == (2, 1)


def test_a_client_that_is_not_installed_is_named_with_its_extra():
    with pytest.raises(SinkError, match=r"pip install 'millpond\[kafka\]'") as caught:
        client("no_such_client", "kafka")
    assert caught.value.code == "MP802"

"""State as DataFrames, compared with the program as plain Python; the checkpoint is made without Spark."""

from __future__ import annotations

import datetime
import shutil
from collections import Counter

import pytest
from pyspark.errors import PythonException
from pyspark.sql.types import StructType

from millpond.checkpoint.snapshots import snapshots
from millpond.errors import MillpondError
from millpond.front.frames import read_changes, read_state
from tests.programs.state_program import run

EPOCHS = 4


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
        return folder / "checkpoint", run(folder, EPOCHS, 150, seed=3)


def code_of(call):
    with pytest.raises(MillpondError) as caught:
        call()
    return caught.value.code


def test_a_state_element_is_a_frame_of_its_keys_and_values(spark, checkpoint):
    folder, tables = checkpoint
    words = read_state(spark, folder, "words")
    assert words.schema.simpleString() == "struct<key:string,value:bigint>"
    assert {row.key: row.value for row in words.collect()} == tables[EPOCHS]["words"]
    older = read_state(spark, str(folder), "words", epoch=2)
    assert {row.key: row.value for row in older.collect()} == tables[2]["words"]
    ratings = read_state(spark, folder, "ratings")
    assert {row.key: row.value for row in ratings.collect()} == tables[EPOCHS]["ratings"]
    prices = read_state(spark, folder, "prices").where("key = date'2024-02-28'").collect()
    assert [row.value for row in prices] == [tables[EPOCHS]["prices"][datetime.date(2024, 2, 28)]]
    assert {bytes(row.key) for row in read_state(spark, folder, "seen").collect()} == set(tables[EPOCHS]["seen"])
    assert read_state(spark, folder, "total").collect()[0].value == tables[EPOCHS]["total"][()]


def test_records_are_json_and_tuples_are_structs(spark, checkpoint):
    folder, tables = checkpoint
    spots = read_state(spark, folder, "spots")
    assert isinstance(spots.schema["key"].dataType, StructType)
    parsed = spots.selectExpr("key._1 as word", "key._2 as number", "get_json_object(value, '$.name') as name")
    assert {(row.word, row.number): row.name for row in parsed.collect()} == {
        key: spot["name"] for key, spot in tables[EPOCHS]["spots"].items()
    }


def test_partial_state_has_its_instances(spark, checkpoint):
    folder, tables = checkpoint
    counts = read_state(spark, folder, "counts")
    assert counts.columns == ["instance", "key", "value"]
    summed = {row["key"]: row["sum(value)"] for row in counts.groupBy("key").sum("value").collect()}
    assert summed == tables[EPOCHS]["counts"]


@pytest.mark.connect
def test_changes_of_each_epoch_lead_from_one_state_to_the_next(spark, checkpoint):
    folder, tables = checkpoint
    for since, until in ((0, EPOCHS), (1, 3)):
        frame = read_changes(spark, folder, "words", since, until)
        assert frame.columns == ["epoch", "change", "key", "old", "new"]
        state = dict(tables[since]["words"])
        rows = frame.collect()
        assert max(Counter((row.epoch, row.key) for row in rows).values(), default=1) == 1
        for epoch in range(since + 1, until + 1):
            for row in (row for row in rows if row.epoch == epoch):
                assert row.old == state.get(row.key)
                assert row.change == ("added" if row.old is None else "removed" if row.new is None else "changed")
                if row.new is None:
                    del state[row.key]
                else:
                    state[row.key] = row.new
            assert state == tables[epoch]["words"]


def test_a_frame_stays_at_its_epoch_and_sees_when_the_checkpoint_is_another_one(spark, tmp_path):
    before = run(tmp_path, 1, 60)[1]["words"]
    frame = read_state(spark, tmp_path / "checkpoint", "words")
    run(tmp_path, 1, 60, seed=8)
    assert {row.key: row.value for row in frame.collect()} == before
    shutil.rmtree(tmp_path / "checkpoint")
    run(tmp_path, 1, 60)
    with pytest.raises(PythonException) as caught:
        frame.collect()
    assert "MP455" in str(caught.value)


def test_what_is_not_there_is_told_before_a_task_runs(spark, checkpoint, tmp_path):
    folder, _ = checkpoint
    assert code_of(lambda: read_state(spark, folder, "wrods")) == "MP240"
    assert code_of(lambda: read_state(spark, folder, "words", epoch=99)) == "MP450"
    assert code_of(lambda: read_state(spark, tmp_path, "words")) == "MP350"
    assert code_of(lambda: read_changes(spark, folder, "words", 3, 1)) == "MP452"

"""Spark's checkpoint and ours, kept, lost, put back or damaged: the job goes on or says what is wrong."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from millpond import parquet
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import EpochError, MillpondError, StorageError
from millpond.storage.backends.files import FileStorage
from tests.programs.keyed import Store, Totals, committed_state, oracle
from tests.spark.feeding import stream_of, visible, write_part


def rows_of(part):
    return [("add", (part, 1.0)), ("add", (100, float(part)))]


def write_rows(folder, parts):
    for part in parts:
        columns = list(zip(*(arguments for _, arguments in rows_of(part)), strict=True))
        write_part(folder, part, pa.table({"key": columns[0], "amount": columns[1]}))


@pytest.fixture
def job(spark, tmp_path):
    def make():
        made = Totals.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
        return made.feed("add", stream_of(spark, tmp_path / "in"), to=parquet(tmp_path / "out"), keep=["key"])

    return make


def lose_spark(folder):
    shutil.rmtree(folder / "ck" / "spark")


def lose_ours(folder):
    for part in ("genesis", "manifests", "heads", "deltas", "snapshots"):
        path = folder / "ck" / part
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def refused(call):
    with pytest.raises(EpochError) as caught:
        call()
    assert "Traceback" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.code


def state_after(*parts):
    return oracle(Totals, [row for part in parts for row in rows_of(part)]).state


@pytest.fixture
def begun(tmp_path, job):
    """Two epochs are committed, and a third part waits."""
    write_rows(tmp_path / "in", (0, 1))
    job().run()
    write_rows(tmp_path / "in", (2,))
    return tmp_path


def test_both_kept_goes_on(begun, job):
    job().run()
    assert committed_state(begun / "ck") == state_after(0, 1, 2)
    assert len(visible(begun / "out")) == 6


def test_both_lost_begins_anew(begun, job):
    shutil.rmtree(begun / "ck")
    job().run()
    assert committed_state(begun / "ck") == state_after(0, 1, 2)


def test_ours_lost_is_refused_and_can_be_adopted(begun, job):
    lose_ours(begun)
    assert refused(job().run) == "MP403"
    assert committed_state(begun / "ck") == {}
    job().run(adopt=True)
    assert committed_state(begun / "ck") == state_after(2)


def test_sparks_lost_is_refused_and_can_be_adopted(begun, job):
    lose_spark(begun)
    assert refused(job().run) == "MP404"
    assert committed_state(begun / "ck") == state_after(0, 1)
    job().run(adopt=True)
    assert committed_state(begun / "ck") == state_after(0, 1, 0, 1, 2)


def test_ours_put_back_is_refused_and_can_be_adopted(begun, job):
    parts = ("manifests", "heads")
    for part in parts:
        shutil.copytree(begun / "ck" / part, begun / "old" / part)
    job().run()
    write_rows(begun / "in", (3,))
    for part in parts:
        shutil.rmtree(begun / "ck" / part)
        shutil.copytree(begun / "old" / part, begun / "ck" / part)
    assert refused(job().run) == "MP405"
    assert committed_state(begun / "ck") == state_after(0, 1)
    job().run(adopt=True)
    assert committed_state(begun / "ck") == state_after(0, 1, 3)


def test_sparks_put_back_is_refused_and_can_be_adopted(begun, job):
    shutil.copytree(begun / "ck" / "spark", begun / "old")
    job().run()
    write_rows(begun / "in", (3,))
    job().run()
    lose_spark(begun)
    shutil.copytree(begun / "old", begun / "ck" / "spark")
    assert refused(job().run) == "MP406"
    assert committed_state(begun / "ck") == state_after(0, 1, 2, 3)
    job().run(adopt=True)
    assert committed_state(begun / "ck") == state_after(0, 1, 2, 3, 2, 3)


def test_a_batch_that_spark_forgot_it_did_is_not_applied_twice(begun, job):
    # As after a kill between our commit and Spark's.
    job().run()
    last = max((begun / "ck" / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    assert job().run().epochs == ()
    assert committed_state(begun / "ck") == state_after(0, 1, 2)
    assert len(visible(begun / "out")) == 6


def store_job(spark, folder, entries):
    job = Store.on(spark, checkpoint=folder / "ck", partitions=2, local_root=folder / "local")
    for name in entries:
        job.feed(name, stream_of(spark, folder / name))
    return job


def write_store(folder, part):
    write_part(folder / "put", part, pa.table({"key": ["a"], "value": [str(part)]}))
    write_part(folder / "delete", part, pa.table({"key": ["b"]}))
    write_part(folder / "get", part, pa.table({"key": ["a"]}))


def test_swapped_feeds_are_refused_and_can_be_adopted(spark, tmp_path):
    write_store(tmp_path, 0)
    store_job(spark, tmp_path, ("put", "delete")).run()
    before = committed_state(tmp_path / "ck")
    write_store(tmp_path, 1)
    assert refused(store_job(spark, tmp_path, ("delete", "put")).run) == "MP407"
    assert committed_state(tmp_path / "ck") == before
    report = store_job(spark, tmp_path, ("delete", "put")).run(adopt=True)
    assert report.rows == 2
    assert committed_state(tmp_path / "ck") == oracle(Store, [("put", ("a", "1"))]).state


@pytest.mark.parametrize("entries", [("put", "delete", "get"), ("put",)], ids=["added", "removed"])
def test_more_or_fewer_feeds_are_refused_and_begin_anew_with_a_new_checkpoint_of_spark(spark, tmp_path, entries):
    write_store(tmp_path, 0)
    store_job(spark, tmp_path, ("put", "delete")).run()
    before = committed_state(tmp_path / "ck")
    write_store(tmp_path, 1)
    assert refused(store_job(spark, tmp_path, entries).run) == "MP407"
    assert refused(lambda: store_job(spark, tmp_path, entries).run(adopt=True)) == "MP437"
    assert committed_state(tmp_path / "ck") == before
    job = store_job(spark, tmp_path, entries)
    query = job.start("available now", adopt=True, spark_checkpoint=str(tmp_path / "spark-2"))
    query.awaitTermination()
    assert committed_state(tmp_path / "ck") == oracle(Store, [("put", ("a", "1"))]).state


def test_feeds_swapped_after_a_crash_of_the_first_batch_read_their_own_files(spark, tmp_path, monkeypatch):
    # Spark has planned batch 0 and repeats it: each source must get the files that were planned for it.
    write_store(tmp_path, 0)
    put = FileStorage.put

    def put_no_manifest(self, name, data):
        if name.startswith("manifests/"):
            raise StorageError("MP309", "can't write")
        return put(self, name, data)

    monkeypatch.setattr(FileStorage, "put", put_no_manifest)
    with pytest.raises(StorageError):
        store_job(spark, tmp_path, ("put", "delete")).run()
    monkeypatch.undo()
    store_job(spark, tmp_path, ("delete", "put")).run()
    assert committed_state(tmp_path / "ck") == oracle(Store, [("put", ("a", "0"))]).state


def test_an_error_of_a_source_is_coded(spark, begun, job):
    (begun / "in" / "part-0002.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(EpochError) as caught:
        job().run()
    assert caught.value.code in {"MP409", "MP436"}
    assert committed_state(begun / "ck") == state_after(0, 1)


def test_another_program_on_the_same_checkpoint_is_refused(spark, begun):
    with pytest.raises(MillpondError) as caught:
        Store.on(spark, checkpoint=begun / "ck")
    assert caught.value.code.startswith("MP4")
    assert committed_state(begun / "ck") == state_after(0, 1)


def test_an_old_driver_stops_at_the_fence_and_the_new_one_goes_on(spark, tmp_path):
    frame = spark.createDataFrame([(1, 2.0, 1)], "key long, amount double, at long")

    def job():
        made = Totals.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
        return made.feed("add", frame, order_by="at")

    old, new = job(), job()
    new.run("monday")
    assert refused(lambda: old.run("tuesday")) == "MP408"
    assert refused(lambda: old.run("wednesday")) == "MP408"
    new.run("thursday")
    assert committed_state(tmp_path / "ck") == oracle(Totals, [("add", (1, 2.0))] * 2).state


def damage(path, how):
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[:-7])
    elif how == "flipped":
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :])
    else:
        path.unlink()


def newest(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)


DAMAGE = [(what, how) for what in ("manifests", "deltas", "snapshots") for how in ("truncated", "flipped", "missing")]


# The newest manifest gone is a checkpoint that was put back, and that has its own test.
@pytest.mark.parametrize(("what", "how"), [case for case in DAMAGE if case != ("manifests", "missing")])
def test_a_damaged_file_is_named_and_never_read_as_state(begun, job, monkeypatch, what, how):
    if what == "snapshots":
        monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
        job().run()
        write_rows(begun / "in", (3,))
        job().run()  # names the snapshot that was merged after the commit before
        write_rows(begun / "in", (4,))
    shutil.rmtree(begun / "local")  # or the files would not be read at all
    seen = len(visible(begun / "out"))
    path = newest(begun / "ck" / what)
    whole = path.read_bytes()
    damage(path, how)
    with pytest.raises((StorageError, EpochError)) as caught:
        job().run()
    assert path.name in str(caught.value)
    assert len(visible(begun / "out")) == seen
    path.write_bytes(whole)
    job().run()
    parts = (0, 1, 2, 3, 4) if what == "snapshots" else (0, 1, 2)
    assert committed_state(begun / "ck") == state_after(*parts)
    assert len(visible(begun / "out")) == 2 * len(parts)


def test_manifests_and_genesis_that_are_lost_are_missed_by_what_is_left(begun, job):
    for part in ("genesis", "manifests"):
        path = begun / "ck" / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert refused(lambda: job().run()) == "MP414"


def test_a_newest_manifest_that_is_lost_is_missed(begun, job):
    max((begun / "ck" / "manifests").iterdir()).unlink()
    assert refused(lambda: job().run()) == "MP457"


@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_local_stores_that_were_harmed_between_two_runs_are_rebuilt(begun, job, harm):
    stores = sorted((begun / "local").rglob("data.mdb"))
    assert stores
    for store in stores:
        data = bytearray(store.read_bytes())
        if harm == "cut":
            del data[5000:]
        else:
            # The last pages hold what was written last.
            for place in range(0, len(data), 611):
                data[place] ^= 4
        store.write_bytes(bytes(data))
    job().run()
    assert committed_state(begun / "ck") == state_after(0, 1, 2)
    assert len(visible(begun / "out")) == 6
    assert sorted((begun / "local").rglob("*.damaged")) != []

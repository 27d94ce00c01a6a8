"""Checkpoints that are no folder: the same answers, restarts included, and what is lost with the work folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from urllib.parse import quote

import pyarrow as pa
import pytest

from millpond import Durability, foreach_epoch, memory, parquet
from millpond.checkpoint.recovery import read_state
from millpond.errors import EpochError, FeedError, RowError, StorageError
from millpond.spark.streaming import workroot
from millpond.storage.frame import FILE_VARIABLE
from millpond.storage.open import open_storage
from tests.contract import s3_server as s3
from tests.contract.servers import REDIS_PASSWORD, RedisServer, child_environment, s3_server
from tests.programs.keyed import Recommender, Store, Totals, fresh_seed, oracle, random_rows
from tests.spark.conftest import CONNECT
from tests.spark.feeding import feed_all, replies_in, stream_of, streams, tables, write_part, write_parts

PARTS = 4


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield f"redis://:{quote(REDIS_PASSWORD, safe='')}@127.0.0.1:{server.port}/0"
    server.stop()


@pytest.fixture(params=["log", "rocksdb", "perkey", "spread", "redis"])
def url(request, tmp_path):
    place = tmp_path / "ck"
    if request.param == "redis":
        return f"{request.getfixturevalue('redis')}/{tmp_path.name}"
    return {
        "log": f"log://{place}",
        "rocksdb": f"rocksdb://{place}",
        "perkey": f"perkey://{place}",
        "spread": f"spread://2*{place}/one|log://{place}/two",
    }[request.param]


@pytest.fixture
def work(tmp_path):
    """Where Spark keeps its own checkpoint: a server of Spark Connect has no folder for it by default."""
    return Durability(work=tmp_path / "work" if CONNECT else None)


def test_a_stream_equals_plain_python_and_goes_on_after_a_restart(spark, tmp_path, url, work):
    rows = random_rows(Store, fresh_seed(), 60)
    write_parts(tmp_path / "all", Store, rows, PARTS)
    for first, last in ((0, 2), (2, PARTS)):
        for entry in ("put", "get", "delete"):
            for part in range(first, last):
                folder = tmp_path / "in" / entry
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tmp_path / "all" / entry / f"part-{part:04}.parquet", folder)
        job = Store.on(spark, checkpoint=url, partitions=2, local_root=tmp_path / "local", durability=work)
        feed_all(job, Store, streams(spark, Store, tmp_path / "in"), tmp_path / "out").run()
    expected = oracle(Store, rows)
    assert replies_in(tmp_path / "out") == expected.replies
    assert read_state(open_storage(url)) == expected.state
    assert not (tmp_path / "ck" / "spark").exists()


def test_a_bounded_run_with_partial_state_in_a_place_of_its_own_equals_plain_python(spark, tmp_path):
    url = f"elements://{tmp_path}/ck/home|together=log://{tmp_path}/ck/two"
    rows = random_rows(Recommender, fresh_seed(), 40)
    write_parts(tmp_path / "in", Recommender, rows, 1)
    for name in ("monday", "monday"):
        job = Recommender.on(spark, checkpoint=url, partitions=2, local_root=tmp_path / "local")
        feed_all(job, Recommender, tables(spark, Recommender, tmp_path / "in"), tmp_path / "out").run(name)
    expected = oracle(Recommender, rows)
    assert replies_in(tmp_path / "out") == expected.replies
    assert read_state(open_storage(url)) == expected.state
    assert open_storage(f"{tmp_path}/ck/home").list("deltas")
    with pytest.raises(StorageError, match="MP304"):
        read_state(open_storage(f"{tmp_path}/ck/home"))


def write_rows(folder, parts):
    for part in parts:
        write_part(folder, part, pa.table({"key": [part, 100], "amount": [1.0, float(part)]}))


def totals(*parts):
    return oracle(Totals, [("add", row) for part in parts for row in ((part, 1.0), (100, float(part)))]).state


@pytest.fixture
def job(spark, tmp_path):
    def make(sink, local_root=tmp_path / "local", **options):
        made = Totals.on(
            spark,
            checkpoint=f"log://{tmp_path}/ck",
            partitions=2,
            local_root=local_root,
            durability=Durability(**options),
        )
        return made.feed("add", stream_of(spark, tmp_path / "in"), to=sink, keep=["key"])

    return make


def committed(tmp_path):
    return read_state(open_storage(f"log://{tmp_path}/ck"))


def waiting(tmp_path):
    return [name for name in open_storage(f"log://{tmp_path}/ck").list("outputs") if "/_staged/" in name]


def test_replies_for_memory_wait_in_the_checkpoint_and_are_gone_when_they_are_out(tmp_path, job, work):
    write_rows(tmp_path / "in", range(3))
    sink = memory()
    report = job(sink, work=work.work).run()
    # Stores are brought on between the epochs; on a cluster, by the next one.
    assert CONNECT or any(epoch.task_seconds.get("consolidation") for epoch in report.epochs[1:])
    assert sorted(row["key"] for row in sink.rows()) == [0, 1, 2, 100, 100, 100]
    assert waiting(tmp_path) == []
    notes = open_storage(f"log://{tmp_path}/ck").list("outputs")
    assert len(notes) == 1, "the note of the last epoch, which goes with the next one"


@pytest.mark.parametrize("size_max", [0, 4 << 20])
def test_an_epoch_that_was_not_handed_over_outlives_the_work_folder(tmp_path, job, monkeypatch, size_max):
    monkeypatch.setattr(workroot, "LOCAL_BYTES_MAX", size_max)
    write_rows(tmp_path / "in", (0, 1))
    handed = []

    def fails_once(frame, epoch):
        if epoch == 2 and not handed[1:]:
            handed.append("failed")
            raise ValueError("away")
        handed.append((epoch, sorted(row["key"] for row in frame.collect())))

    with pytest.raises(RowError) as caught:
        job(foreach_epoch(fails_once), work=tmp_path / "work").run()
    assert caught.value.code == "MP605"
    assert len(waiting(tmp_path)) > 0
    shutil.rmtree(tmp_path / "work")
    shutil.rmtree(tmp_path / "local")
    with pytest.raises(EpochError) as refused:
        job(foreach_epoch(fails_once), work=tmp_path / "work").run()
    assert refused.value.code == "MP404"
    assert handed == [(1, [0, 100]), "failed", (2, [1, 100])]
    assert waiting(tmp_path) == []
    assert list((tmp_path / "work" / "handed").iterdir()) == []
    assert committed(tmp_path) == totals(0, 1)


def test_a_lost_work_folder_is_refused_and_can_be_adopted(tmp_path, job):
    write_rows(tmp_path / "in", (0, 1))
    job(parquet(tmp_path / "out"), work=tmp_path / "work").run()
    assert (tmp_path / "work" / "spark" / "offsets").exists()
    shutil.rmtree(tmp_path / "work")
    write_rows(tmp_path / "in", (2,))
    with pytest.raises(EpochError) as refused:
        job(parquet(tmp_path / "out"), work=tmp_path / "work").run()
    assert refused.value.code == "MP404"
    assert committed(tmp_path) == totals(0, 1)
    job(parquet(tmp_path / "out"), work=tmp_path / "work").run(adopt=True)
    assert committed(tmp_path) == totals(0, 1, 0, 1, 2)


def test_a_lost_checkpoint_beside_a_kept_work_folder_is_refused_and_can_be_adopted(tmp_path, job):
    write_rows(tmp_path / "in", (0, 1))
    job(parquet(tmp_path / "out"), work=tmp_path / "work").run()
    shutil.rmtree(tmp_path / "ck")
    write_rows(tmp_path / "in", (2,))
    with pytest.raises(EpochError) as refused:
        job(parquet(tmp_path / "out"), work=tmp_path / "work").run()
    assert refused.value.code == "MP403"
    job(parquet(tmp_path / "out"), work=tmp_path / "work").run(adopt=True)
    assert committed(tmp_path) == totals(2)


@pytest.mark.classic("a server has no work folder by default")
def test_by_default_the_work_folder_is_beside_the_local_stores(tmp_path, job):
    write_rows(tmp_path / "in", (0,))
    job(None).run()
    places = list((tmp_path / "local-work").glob("*/spark/offsets"))
    assert len(places) == 1
    write_rows(tmp_path / "in", (1,))
    job(None).run()
    assert committed(tmp_path) == totals(0, 1)


LARGE_BYTES = 2 << 20


@pytest.mark.slow
@pytest.mark.parametrize("restore", ["on_demand", "eager"])
def test_a_large_state_is_restored_with_the_same_answers(spark, tmp_path, restore):
    """Above the size that is restored at once; workers are other processes, so nothing can be made small for them."""
    rows = [(f"key-{number}", f"{number:07}" * (LARGE_BYTES // 7), number) for number in range(18)]
    frame = spark.createDataFrame(rows, "key string, value string, at long")

    def job(**options):
        return Store.on(
            spark,
            checkpoint=f"log://{tmp_path}/ck",
            partitions=1,
            local_root=tmp_path / "local",
            durability=Durability(**options),
        )

    job().feed("put", frame, order_by="at").run("monday")
    shutil.rmtree(tmp_path / "local")
    sink = memory()
    asked = job(restore=restore).feed("get", frame.limit(1).drop("value"), to=sink, order_by="at").run("tuesday")
    assert [row["reply"] for row in sink.rows()] == [rows[0][1]]
    spent = asked.epochs[0].task_seconds
    assert ("restore" in spent) == (restore == "on_demand")
    sink = memory()
    job(restore=restore).feed("get", frame.drop("value"), to=sink, order_by="at").run("wednesday")
    assert {row["key"]: row["reply"] for row in sink.rows()} == {key: value for key, value, _ in rows}


@pytest.mark.parametrize(("options", "code"), [({"restore": "later"}, "MP523"), ({"work": "s3://b/x"}, "MP522")])
def test_options_that_make_no_sense_are_refused(tmp_path, job, options, code):
    write_rows(tmp_path / "in", (0,))
    with pytest.raises(FeedError) as caught:
        job(None, **options)
    assert caught.value.code == code


def run_elsewhere(folder, url, **environment):
    """Run the job in a process of its own; what it said, all logs included."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.remote_job", str(folder), url],
        env=child_environment(**environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def s3_endpoint():
    with s3_server() as endpoint:
        yield endpoint


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("s3", marks=pytest.mark.campaign), "redis"])
def test_a_server_keeps_the_checkpoint_and_no_log_tells_its_secrets(tmp_path, kind, request, monkeypatch):
    rows = random_rows(Store, fresh_seed(), 30)
    write_parts(tmp_path / "in", Store, rows, 2)
    if kind == "s3":
        secret, environment = s3.CREDENTIALS["AWS_SECRET_ACCESS_KEY"], s3.CREDENTIALS
        endpoint = request.getfixturevalue("s3_endpoint")
        url, bad_url = (f"s3://{bucket}/{tmp_path.name}?endpoint={endpoint}" for bucket in ("plain", "nowhere"))
    else:
        secret, environment = quote(REDIS_PASSWORD, safe=""), {}
        url = f"{request.getfixturevalue('redis')}/{tmp_path.name}-logs"
        bad_url = url.replace(secret, f"not-{secret}")
    signing = "5e" * 32
    (tmp_path / "signing").write_text(signing)
    environment = {**environment, FILE_VARIABLE: str(tmp_path / "signing")}
    for _ in range(2):
        code, said = run_elsewhere(tmp_path, url, **environment)
        assert code == 0, said[-3000:]
        assert secret not in said
        assert signing not in said
        assert REDIS_PASSWORD not in said
    expected = oracle(Store, rows)
    assert replies_in(tmp_path / "out") == expected.replies
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert read_state(open_storage(url)) == expected.state
    monkeypatch.delenv(FILE_VARIABLE)
    with pytest.raises(StorageError) as unsigned:
        read_state(open_storage(url))
    assert unsigned.value.code == "MP341"
    code, said = run_elsewhere(tmp_path, bad_url, **environment)
    assert code == 1
    assert "MP331" in said
    assert secret not in said
    assert REDIS_PASSWORD not in said

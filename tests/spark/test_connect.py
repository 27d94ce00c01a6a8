"""Spark Connect: what differs there. The other tests of this folder run through it with MILLPOND_TEST_CONNECT=1."""

from __future__ import annotations

import random
import signal
import tempfile
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import udf

from millpond import Durability, foreach_epoch
from millpond.errors import MillpondError
from millpond.spark.placement.executor import ON_EXECUTOR, STORES, local_folder, root_on_executor
from millpond.spark.placement.placement import one_host
from millpond.spark.streaming.connect import Relay, over_connect
from millpond.storage.open import open_storage
from tests.programs.keyed import Totals, committed_state, fresh_seed, oracle, random_rows, say
from tests.spark.conftest import CONNECT
from tests.spark.drivers import Driver, wait_for
from tests.spark.feeding import feed_all, replies_in, stream_of, streams, write_parts
from tests.spark.gated import Gated
from tests.spark.listening import LOOPBACK, addresses, below
from tests.spark.test_driver_kill import check, epochs_in, rows_for

pytestmark = pytest.mark.skipif(not CONNECT, reason="a process has classic Spark or Connect (make connect)")


class Client(Driver):
    """A client as a process; the server is nobody's child."""

    JOB = "tests.spark.connect_job"


def totals_job(spark, folder):
    job = Totals.on(spark, checkpoint=folder / "ck", partitions=2)
    return feed_all(job, Totals, streams(spark, Totals, folder / "in"), folder / "out")


def stores_of(folder):
    """The stores of a checkpoint on the server, which is its own executor."""
    name = root_on_executor(open_storage(str(folder / "ck")).url, "*").removeprefix(ON_EXECUTOR)
    # Java has a temporary folder of its own, whatever TMPDIR says.
    places = {Path(tempfile.gettempdir()), Path("/tmp")}
    return sorted(found for place in places for found in place.glob(f"blockmgr-*/{STORES}/{name}"))


@pytest.mark.connect
def test_the_session_is_known_as_a_client_whose_workers_may_be_anywhere(spark):
    assert over_connect(spark)
    assert not one_host(spark)


@pytest.mark.connect
def test_the_server_listens_on_loopback_only(spark, server):
    listens = addresses(below(server.pid))
    assert listens
    assert listens <= LOOPBACK


@pytest.mark.timeout(1800)
def test_a_client_killed_again_and_again_neither_loses_nor_repeats_anything(spark, server, tmp_path):
    seed = fresh_seed()
    rng = random.Random(seed)
    parts = 8
    rows = rows_for(seed, parts)
    write_parts(tmp_path / "in", Gated, rows, parts)
    for crash_at in (None, "manifest.committed:1"):
        client = Client(tmp_path, crash_at=crash_at, master=server.url)
        if crash_at is None:
            client.kill_at_random(lambda: epochs_in(tmp_path), rng)
        else:
            assert client.end() == -signal.SIGKILL
        say("killed with", epochs_in(tmp_path), "epochs")
    assert epochs_in(tmp_path) < parts, "there was nothing left to recover"
    assert stores_of(tmp_path), "the killed clients left no stores"
    assert Client(tmp_path, master=server.url).end() == 0
    check(tmp_path, rows)
    assert stores_of(tmp_path) == []


@pytest.mark.connect
def test_a_query_that_is_stopped_in_the_middle_of_a_batch_goes_on_later(spark, tmp_path):
    rows = random_rows(Totals, fresh_seed(), 60)
    wanted = oracle(Totals, rows)
    write_parts(tmp_path / "in", Totals, rows, 4)
    job = totals_job(spark, tmp_path)
    query = job.start()
    wait_for(lambda: (tmp_path / "ck" / "spark" / "offsets" / "1").exists() or not query.isActive, "a second batch")
    query.stop()
    job.run()
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state


@pytest.mark.connect
def test_what_fails_at_the_client_ends_the_query_and_is_told_by_both(spark, tmp_path):
    write_parts(tmp_path / "in", Totals, random_rows(Totals, 1, 10), 1)

    def refuse(frame, epoch):
        raise ValueError("no room")

    job = Totals.on(spark, checkpoint=tmp_path / "ck", partitions=2)
    job.feed("add", stream_of(spark, tmp_path / "in" / "add"), order_by="at", to=foreach_epoch(refuse))
    query = job.start()
    with pytest.raises(StreamingQueryException) as told:
        query.awaitTermination()
    assert "MP671" in str(told.value)
    assert "MP605" in str(told.value)
    assert job.error is not None
    assert job.error.code == "MP605"


@pytest.mark.connect
def test_a_query_whose_client_is_gone_ends(spark, tmp_path):
    write_parts(tmp_path / "in", Totals, random_rows(Totals, 1, 10), 1)
    job = totals_job(spark, tmp_path)
    job.run()
    # Nobody but the query can remove these now.
    root = job._store_root
    spark.range(1).select(udf(lambda _: Path(local_folder(root)).mkdir(parents=True), "int")("id")).collect()
    assert len(stores_of(tmp_path)) == 1
    silent = Relay(spark, root, patience_s=1.0)
    writer = stream_of(spark, tmp_path / "in" / "add").writeStream.foreachBatch(silent.function)
    query = writer.option("checkpointLocation", str(tmp_path / "spark")).start()
    with pytest.raises(StreamingQueryException, match="MP670"):
        query.awaitTermination()
    silent.end()
    assert stores_of(tmp_path) == []


def test_nothing_is_left_in_the_session_when_a_query_has_ended(spark, tmp_path):
    rows = random_rows(Totals, 2, 20)
    write_parts(tmp_path / "in", Totals, rows, 2)

    def held():
        settings = {name for name in spark.conf.getAll if name.startswith("millpond.")}
        return settings | {row.viewName for row in spark.sql("SHOW VIEWS IN global_temp").collect()}

    # Clients that other tests killed or kept silent leave something until their queries give up.
    before = held()
    totals_job(spark, tmp_path).run()
    assert held() - before == set()


@pytest.mark.parametrize("level", ["replay", "bounded_loss"])
def test_what_needs_the_driver_beside_its_workers_is_refused_before_anything_runs(spark, tmp_path, level):
    with pytest.raises(MillpondError) as refused:
        Totals.on(spark, checkpoint=tmp_path / "ck", durability=Durability(level))
    say(refused.value)
    assert refused.value.code == "MP493"
    assert not (tmp_path / "ck").exists()

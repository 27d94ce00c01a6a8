"""Key groups change owners while a query runs, by hand and by policy: nothing is lost, repeated or restarted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from millpond import Counter, Partitioned, Program, Tuning, entry, parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.engine.elastic import Decision, Elastic, Reason
from millpond.errors import ElasticError
from millpond.storage.backends.files import FileStorage
from tests.programs.keyed import Recommender, Store, committed_state, fresh_seed, oracle, random_rows
from tests.property.test_spread import Words, random_row
from tests.spark.drivers import wait_for
from tests.spark.feeding import feed_all, replies_in, stream_of, streams, visible, write_parts

GROUPS = 128


class Shifting:
    """A policy that gives key groups other owners after every epoch, as it comes."""

    def __init__(self, seed, partitions=(1, 2, 3)):
        self._rng = random.Random(seed)
        self._partitions = partitions

    def decide(self, seen):
        count = self._rng.choice(self._partitions)
        chosen = {group: self._rng.randrange(count) for atom in seen.atoms for group in atom[:1]}
        owners = tuple(chosen[atom[0]] for atom in seen.atoms for _ in atom)
        return Decision(Reason.ASKED, owners, count, f"{count} partitions, as it comes")


def job_of(spark, program, folder, partitions=2, **tuning):
    return program.on(
        spark,
        checkpoint=folder / "ck",
        partitions=partitions,
        local_root=folder / "local",
        progress=False,
        tuning=Tuning(**{"small_epoch": 0, **tuning}),
    )


def head_of(folder):
    storage = FileStorage(folder / "ck")
    return last_manifest(storage, read_genesis(storage)[1])[0]


@pytest.mark.parametrize("small_epoch", [0, 1000])
@pytest.mark.parametrize("program", [Store, Recommender])
def test_a_stream_whose_key_groups_move_between_all_epochs_equals_plain_python(spark, tmp_path, program, small_epoch):
    seed = fresh_seed()
    rows = random_rows(program, seed, 120)
    write_parts(tmp_path / "in", program, rows, 8)
    job = job_of(spark, program, tmp_path, small_epoch=small_epoch, elastic=Elastic(policy=Shifting(seed)))
    report = feed_all(job, program, streams(spark, program, tmp_path / "in"), tmp_path / "out").run()
    truth = oracle(program, rows)
    assert committed_state(tmp_path / "ck") == truth.state
    assert replies_in(tmp_path / "out") == truth.replies
    assert len(report.epochs) == 8
    assert sum(one.groups_moved for one in report.epochs) > 0
    assert len({one.partitions for one in report.epochs}) > 1
    assert all("as it comes" in one.advice[0] for one in report.epochs)
    ownership = head_of(tmp_path).ownership
    assert ownership is not None
    # A start of its own goes on with the owners that there were.
    again = job_of(spark, program, tmp_path, partitions=None)
    layout = again._driver.layout
    assert (layout.partitions, layout.owners()) == (ownership.partitions, ownership.owners(GROUPS))


class Spreading(Shifting):
    """A policy that also lets rows of tasks without state run anywhere; `decided` is what it said."""

    def __init__(self, seed):
        super().__init__(seed)
        self.decided = [None]

    def decide(self, seen):
        decision = super().decide(seen)
        spread = tuple(self._rng.randrange(decision.partitions) for _ in range(GROUPS))
        self.decided.append(spread)
        return replace(decision, spread=spread)


@pytest.mark.parametrize("small_epoch", [0, 1000])
def test_rows_without_state_run_wherever_they_are_sent_and_all_equals_plain_python(spark, tmp_path, small_epoch):
    seed = fresh_seed()
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(120)]
    write_parts(tmp_path / "in", Words, rows, 5)
    policy = Spreading(seed)
    job = job_of(spark, Words, tmp_path, small_epoch=small_epoch, elastic=Elastic(policy=policy))
    report = feed_all(job, Words, streams(spark, Words, tmp_path / "in"), tmp_path / "out").run()
    truth = oracle(Words, rows)
    assert committed_state(tmp_path / "ck") == truth.state
    assert replies_in(tmp_path / "out") == truth.replies
    assert len(report.epochs) == 5
    parts = [rows[at : at + 24] for at in range(0, 120, 24)]
    for epoch, part, spread in zip(report.epochs[1:], parts[1:], policy.decided[1:], strict=False):
        free = [load for load in epoch.loads if load.free]
        # Now and then an entry point has no row in a part.
        assert {load.task for load in free} == {f"{name}.0" for name, _ in part}
        for load in free:
            assert list(load.worked) == np.bincount(spread, load.rows, epoch.partitions).tolist()


class Totals(Program):
    totals = Partitioned(Counter[int])

    @entry
    def add(self, key: int) -> int:
        self.totals[key] += 1
        return self.totals[key]


def test_a_query_that_runs_gets_other_numbers_of_partitions_without_a_restart(spark, tmp_path):
    rows = [("add", (n % 23,)) for n in range(90)]
    write_parts(tmp_path / "all", Totals, rows, 6)
    job = job_of(spark, Totals, tmp_path)
    job.feed(
        "add", stream_of(spark, tmp_path / "all" / "add"), to=parquet(tmp_path / "out"), keep=["at"], order_by="at"
    )
    manifests, counts = tmp_path / "ck" / "manifests", []
    wanted = iter((4, 1, 3))
    told = job._engine.progress.epoch

    def watch(report):
        counts.append((report.partitions, report.groups_moved))
        if len(counts) in (1, 3, 5):
            job.resize(next(wanted))
        told(report)

    job._engine.progress.epoch = watch
    query = job.start()
    wait_for(lambda: len(counts) == 6 or job.error or not query.isActive, "six epochs")
    query.stop()
    assert job.error is None
    assert [partitions for partitions, _ in counts] == [2, 4, 4, 1, 1, 3]
    assert [moved for _, moved in counts][:1] == [0]
    assert [bool(moved) for _, moved in counts] == [False, True, False, True, False, True]
    assert counts[1][1] <= GROUPS // 2
    assert len(list(manifests.iterdir())) == 6
    said = {row["at"]: row["reply"] for row in visible(tmp_path / "out")}
    plain = Totals()
    assert [said[at] for at in range(90)] == [plain.add(*arguments) for _, arguments in rows]


@pytest.mark.parametrize("partitions", [0, GROUPS + 1, "2", True])
def test_numbers_of_partitions_that_can_not_be_are_refused(spark, tmp_path, partitions):
    job = job_of(spark, Totals, tmp_path)
    with pytest.raises(ElasticError) as caught:
        job.resize(partitions)
    assert caught.value.code == "MP682"


def test_a_hot_key_is_named_with_what_a_program_can_do_about_it(spark, tmp_path):
    rows = [("add", (7 if n % 3 else n,)) for n in range(600)]
    write_parts(tmp_path / "in", Totals, rows, 2)
    job = job_of(spark, Totals, tmp_path, partitions=3, elastic="advise")
    job.feed("add", stream_of(spark, tmp_path / "in" / "add"), order_by="at")
    report = job.run()
    last = report.epochs[-1]
    assert last.hot_keys[0].key == "7"
    assert 0.6 < last.hot_keys[0].share < 0.7
    assert last.loads[0].total_rows == last.rows == 300
    assert last.skew > 1.2
    (advice,) = report.epochs[0].advice
    assert "key 7 has 6" in advice
    assert "totals = Partial(Counter[int], merge=...)" in advice
    assert last.advice == (), "told once"
    explained = job.explain()
    assert explained.startswith(Totals.explain())
    assert f"hot: {advice[: advice.index(' has ')]} has " in explained
    assert "totals = Partial(Counter[int], merge=...)" in explained
    assert head_of(tmp_path).ownership is None, "advice alone changes nothing"

"""Another number of instances, and of partitions, on Spark: the stream goes on as if nothing had happened."""

from __future__ import annotations

import shutil

import pytest

from millpond import Counter, Partial, Partitioned, Program, Tuning, each, entry, merged
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError
from millpond.storage.backends.files import FileStorage
from tests.fuzz.transactions.worlds.bank import Bank, make_rows
from tests.programs.keyed import committed_state, fresh_seed
from tests.sizes import compile_once
from tests.spark import transactions_feeding as transactions
from tests.spark.feeding import feed_all, streams, visible, write_parts

SCHEDULE = ((4, 2), (7, 3), (2, 1), (None, 3))
"""Instances and partitions of each start."""


class Tally(Program):
    """Partitioned state whose partitions change with the instances, and partial state that is split and merged."""

    totals = Partitioned(Counter[str])
    counts = Partial(Counter[str], on_scale_out="split", merge=sum)

    @entry
    def add(self, word: str) -> int:
        self.totals[word] += 1
        self.counts[word] += 1
        return self.totals[word]

    @entry
    def count(self, word: str) -> int:
        return merged(each(self.counts).get(word, 0), sum)


def rows_of(parts):
    words = [f"word {n * n % 17}" for n in range(parts * 20)]
    return [(("count" if n % 4 == 3 else "add"), (word,)) for n, word in enumerate(words)]


def job_of(spark, folder, source, instances, partitions):
    job = Tally.on(
        spark,
        checkpoint=folder / "ck",
        partitions=partitions,
        tuning=Tuning(key_groups=16, instances=instances, small_epoch=0),
        local_root=folder / "local",
        progress=False,
    )
    return feed_all(job, Tally, streams(spark, Tally, source), folder / "out")


def test_a_stream_goes_on_over_other_numbers_of_instances_and_partitions(spark, tmp_path, monkeypatch):
    rows = rows_of(len(SCHEDULE))
    plain = Tally()
    wanted = [getattr(plain, name)(*arguments) for name, arguments in rows]
    write_parts(tmp_path / "all", Tally, rows, len(SCHEDULE))
    epochs = 0
    for part, (instances, partitions) in enumerate(SCHEDULE):
        for name in ("add", "count"):
            (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy2(tmp_path / "all" / name / f"part-{part:04}.parquet", tmp_path / "in" / name)
        report = job_of(spark, tmp_path, tmp_path / "in", instances, partitions).run()
        epochs += len(report.epochs) + (part in (1, 2))
        assert report.epoch == epochs
        simulated = Simulated(compile_once(Tally), tmp_path / "simulated", partitions, 16, instances)
        simulated.epoch(rows[part * 20 : (part + 1) * 20])
        assert committed_state(tmp_path / "ck") == committed_state(tmp_path / "simulated" / "checkpoint")
    said = {row["at"]: row["reply"] for name in ("add", "count") for row in visible(tmp_path / "out" / name)}
    assert [said[at] for at in range(len(rows))] == wanted
    head, _ = last_manifest(FileStorage(tmp_path / "ck"), read_genesis(FileStorage(tmp_path / "ck"))[1])
    assert (head.instances, head.offer.number) == (2, len(SCHEDULE) - 1)
    monkeypatch.setattr(Tally.elements()["counts"], "merge", None)
    with pytest.raises(EpochError, match="MP420") as caught:
        job_of(spark, tmp_path, tmp_path / "in", 1, 2)
    assert "merge=" in caught.value.expected


def test_transactions_go_on_with_another_number_of_partitions(spark, tmp_path):
    rows = make_rows(fresh_seed(), 120)
    transactions.write(tmp_path / "all", Bank, rows, 3)
    for part, partitions in enumerate((3, 1, 2)):
        for folder in (tmp_path / "all").iterdir():
            (tmp_path / "in" / folder.name).mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / f"part-{part:04}.parquet", tmp_path / "in" / folder.name)
        frames = transactions.streams(spark, Bank, tmp_path / "in")
        transactions.run_job(spark, Bank, frames, tmp_path, partitions=partitions, small_epoch=0)
    transactions.check(tmp_path, Bank, rows)

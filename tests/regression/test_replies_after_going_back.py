"""A repair that goes back to an earlier epoch: what comes then reaches the sinks, and what they had is no error."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from millpond import Counter, Partitioned, Program, entry, memory, parquet
from millpond.checkpoint.repairing import repair
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.storage.open import open_storage


class Words(Program):
    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> str:
        self.counts[word] += 1
        return f"{word} {self.counts[word]}"


def run_epochs(folder, sink, words):
    run = Simulated(compile_program(Words), folder, 1, sinks={"add": sink})
    for word in words:
        run.epoch([("add", (word,))])
    run.close()


def go_back(folder, to):
    assert repair(open_storage(str(folder / "checkpoint")), to=to).newest == to


@pytest.mark.parametrize("to", [1, 2])
def test_replies_of_epochs_after_going_back_are_published(to, tmp_path):
    sink = parquet(tmp_path / "out")
    run_epochs(tmp_path, sink, ["a", "b", "c"])
    go_back(tmp_path, to)
    run_epochs(tmp_path, sink, ["d", "e"])
    shown = set(pq.read_table(tmp_path / "out")["reply"].to_pylist())
    # What was seen of the epochs that are gone stays: nobody takes a reply back.
    assert shown == {"a 1", "b 1", "c 1", "d 1", "e 1"}


@pytest.mark.parametrize("to", [1, 2])
def test_sinks_that_show_nothing_need_not_have_the_epoch_again_that_a_repair_went_back_to(to, tmp_path):
    sink = memory()
    run_epochs(tmp_path, sink, ["a", "b", "c"])
    go_back(tmp_path, to)
    run_epochs(tmp_path, sink, ["d", "e"])
    replies = [row["reply"] for row in sink.rows()]
    assert replies[:to] == ["a 1", "b 1"][:to]
    assert replies[to : to + 2] == ["d 1", "e 1"]


def test_an_epoch_that_stood_on_another_one_proves_nothing(tmp_path):
    """Old epochs 2 and 3 are set aside; the new epoch 2 is committed, and not published when the driver dies."""
    sink = memory()
    run_epochs(tmp_path, sink, ["a", "b", "c"])
    go_back(tmp_path, 1)

    class Fails(type(sink)):
        def publish(self, token, staged):
            raise OSError("no")

    with pytest.raises(Exception, match="MP605"):
        run_epochs(tmp_path, Fails(), ["d"])
    late = memory()
    run_epochs(tmp_path, late, [])
    assert [row["reply"] for row in late.rows()] == ["d 1"]

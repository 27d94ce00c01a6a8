"""A repair that goes back to an earlier epoch: what comes then reaches the sinks, and what they had is no error."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from millpond import Counter, Partitioned, Program, entry, memory, parquet
from millpond.checkpoint.records.manifest import decode_manifest
from millpond.checkpoint.repairing import repair
from millpond.compiler.compile import compile_program
from millpond.engine.publish.staging import HANDED, FolderArea, notes_of
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


@pytest.mark.parametrize("kind", ["memory", "parquet"])
def test_a_note_that_an_older_version_made_of_an_epoch_that_is_gone_proves_nothing(kind, tmp_path):
    """Older versions named a note by the number of the epoch and the sink alone."""
    sink = memory() if kind == "memory" else parquet(tmp_path / "out")
    run_epochs(tmp_path, sink, ["a", "b", "c"])
    storage = open_storage(str(tmp_path / "checkpoint"))
    manifest = decode_manifest(storage.get("manifests/0000000003"), "manifests/0000000003")
    (output,) = manifest.outputs
    (note,) = notes_of(manifest, output.sink, [output])
    as_before = structs.replace(manifest, format=1)
    _, old = notes_of(as_before, output.sink, [output])
    handed = Path(output.root) / HANDED
    (handed / note).rename(handed / old)
    go_back(tmp_path, 2)
    run_epochs(tmp_path, sink, ["d"])
    shown = sink.rows() if kind == "memory" else pq.read_table(tmp_path / "out").to_pylist()
    assert "d 1" in {row["reply"] for row in shown}
    assert FolderArea(Path(output.root)).is_published(old, as_before.outputs), "of its own epoch it tells"

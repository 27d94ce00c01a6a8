"""`millpond state savepoint, fork, gc, repair` on checkpoints of a program, beside the program as plain Python."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from millpond import fork
from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.plain import as_json
from millpond.checkpoint.records.manifest import manifest_name
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.snapshots import snapshots
from millpond.cli import app
from millpond.engine.simulated import Simulated
from millpond.storage.backends.files import FileStorage
from tests.programs.state_program import Everything, run
from tests.sizes import compile_once

EPOCHS = 9


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A checkpoint with snapshots, and the plain state after each of its epochs."""
    folder = tmp_path_factory.mktemp("keep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
        tables = run(folder, EPOCHS, 40)
    return folder / "checkpoint", tables


@pytest.fixture
def checkpoint(original, tmp_path):
    shutil.copytree(original[0], tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def state(*arguments, code=0):
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def told(*arguments, code=0):
    return json.loads(state(*arguments, "--json", code=code).stdout)


def words_at(checkpoint, *epoch):
    """The element `words` as the command line exports it."""
    target = checkpoint.parent / "words.jsonl"
    state("export", checkpoint, "words", "--to", target, *epoch)
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    return {line["key"]: line["value"] for line in lines}


def everything_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_savepoint_is_listed_holds_its_epoch_and_is_deleted(checkpoint):
    made = told("savepoint", checkpoint, "before", "--epoch", 2)
    assert (made["ok"], made["name"], made["epoch"], made["deleted"]) == (True, "before", 2, False)
    listed = told("ls", checkpoint)["savepoints"]
    assert [(line["name"], line["epoch"]) for line in listed] == [("before", 2)]
    assert "savepoint before: epoch 2" in state("ls", checkpoint).stdout
    assert told("gc", checkpoint, "--last", 2, "--grace", "0 s")["kept"] == [2, 8, 9]
    assert told("savepoint", checkpoint, "before", "--delete")["deleted"] is True
    assert told("gc", checkpoint, "--last", 2, "--grace", "0 s")["kept"] == [8, 9]
    assert told("savepoint", checkpoint, "before", "--delete", code=1)["error"]["code"] == "MP425"
    assert told("savepoint", checkpoint, "12", code=1)["error"]["code"] == "MP428"
    assert "names epoch 9" in state("savepoint", checkpoint, "now").stdout
    assert told("savepoint", checkpoint, "now", "--epoch", 8, code=1)["error"]["code"] == "MP428"
    assert state("savepoint", checkpoint, "now", "--epoch", 8, "--delete", code=2)


def test_a_savepoint_whose_epoch_is_gone_is_shown_as_lost(checkpoint):
    state("savepoint", checkpoint, "now")
    (checkpoint / manifest_name(EPOCHS)).unlink()
    assert told("ls", checkpoint)["savepoints"][0]["lost"] is True
    assert "which is lost" in state("ls", checkpoint).stdout
    assert [problem["code"] for problem in told("verify", checkpoint, "--all", code=1)["problems"]] == [
        "MP457",
        "MP450",
    ]


def test_gc_condemns_first_and_deletes_after_the_grace_period(checkpoint, original):
    before = everything_in(checkpoint)
    trial = told("gc", checkpoint, "--last", 2, "--grace", "0 s", "--dry-run")
    assert everything_in(checkpoint) == before
    first = told("gc", checkpoint, "--last", 2)
    assert (first["deleted_manifests"], first["deleted_files"]) == (0, 0)
    assert first["waiting"] == first["newly_condemned"] > 7
    again = told("gc", checkpoint, "--last", 2)
    assert (again["newly_condemned"], again["waiting"]) == (0, first["waiting"])
    assert "deletion list" in state("gc", checkpoint, "--last", 2).stdout
    done = told("gc", checkpoint, "--last", 2, "--grace", "0 s")
    assert (done["deleted_manifests"], done["deleted_files"]) == (7, trial["deleted_files"])
    assert trial["kept"] == done["kept"] == [8, 9]
    assert done["waiting"] == 0
    text = state("gc", checkpoint, "--last", 2, "--grace", "0 s").stdout
    assert "0 epochs and 0 files deleted" in text
    assert "kept: 8 to 9" in text
    for epoch in (8, 9):
        assert words_at(checkpoint, "--epoch", epoch) == original[1][epoch]["words"]
    # A snapshot that the next epoch names waits.
    assert all(name.startswith("snapshots/") for name in told("verify", checkpoint, "--all")["unnamed"])
    assert told("get", checkpoint, "words", "a", "--epoch", 3, code=1)["error"]["code"] == "MP450"


def test_gc_keeps_every_so_manieth_epoch(checkpoint):
    assert told("gc", checkpoint, "--last", 2, "--every", 3, "--grace", "0 s")["kept"] == [3, 6, 8, 9]


@pytest.mark.parametrize("copy", [[], ["--copy"]])
def test_a_fork_shows_the_state_it_began_with_and_runs_on(checkpoint, original, tmp_path, copy):
    _, tables = original
    made = told("fork", f"{checkpoint}@4", tmp_path / "new" / "checkpoint", *copy)
    assert (made["ok"], made["epoch"], made["copied"]) == (True, 4, bool(copy))
    new = tmp_path / "new" / "checkpoint"
    assert words_at(new) == tables[4]["words"]
    assert told("ls", new)["uuid"] == made["uuid"] != told("ls", checkpoint)["uuid"]
    assert "forked from" in state("ls", new).stdout
    assert told("verify", new, "--all")["ok"]
    simulated = Simulated(compile_once(Everything), tmp_path / "new", partitions=2)
    simulated.epoch([("word", ("a",)), ("word", ("fork",))])
    assert words_at(new)["fork"] == 1
    assert words_at(checkpoint) == tables[EPOCHS]["words"]
    if copy:
        assert told("ls", checkpoint)["savepoints"] == []
        return
    held = told("ls", checkpoint)["savepoints"]
    assert [line["name"] for line in held] == [f"fork-{made['uuid']}"]
    assert told("savepoint", checkpoint, held[0]["name"], "--delete", code=1)["error"]["code"] == "MP248"
    shutil.rmtree(tmp_path / "new")
    assert told("savepoint", checkpoint, held[0]["name"], "--delete")["ok"]


def test_a_fork_by_savepoint_and_in_python(checkpoint, original, tmp_path):
    state("savepoint", checkpoint, "good", "--epoch", 5)
    assert "begins at epoch 5" in state("fork", f"{checkpoint}@good", tmp_path / "a").stdout
    assert fork(checkpoint, tmp_path / "b", epoch="good").epoch == 5
    assert fork(tmp_path / "b", tmp_path / "c").epoch == 5
    assert words_at(tmp_path / "c") == original[1][5]["words"]
    assert told("fork", checkpoint, tmp_path / "a", code=1)["error"]["code"] == "MP423"
    assert told("fork", f"{checkpoint}@bad", tmp_path / "d", code=1)["error"]["code"] == "MP425"
    odd = tmp_path / "name@5"
    shutil.copytree(checkpoint, odd)
    assert told("fork", odd, tmp_path / "e")["epoch"] == EPOCHS


def test_diff_tells_by_its_exit_code_only_if_asked_to(checkpoint):
    state("diff", checkpoint, 3, 4)
    state("diff", checkpoint, 3, 4, "--exit-code", code=1)
    state("diff", checkpoint, 3, 4, "--exit-code", "--json", code=1)
    state("diff", checkpoint, 4, 4, "--exit-code")
    state("diff", checkpoint, 4, 4, "--exit-code", "--json")


def test_repair_makes_a_chunk_again_and_says_so(checkpoint, original):
    chunk = History(FileStorage(checkpoint)).point().manifest.snapshot[0].file.name
    good = (checkpoint / chunk).read_bytes()
    (checkpoint / chunk).write_bytes(good[:-1])
    before = everything_in(checkpoint)
    trial = told("repair", checkpoint, "--dry-run")
    assert everything_in(checkpoint) == before
    assert (trial["ok"], trial["rebuilt"], trial["dry_run"]) == (True, [chunk], True)
    assert "would be made again" in state("repair", checkpoint, "--dry-run").stdout
    text = state("repair", checkpoint).stdout
    assert f"{chunk} made again" in text
    assert f"a job can start at epoch {EPOCHS}" in text
    assert (checkpoint / chunk).read_bytes() == good
    assert told("verify", checkpoint, "--all")["ok"]
    assert words_at(checkpoint) == original[1][EPOCHS]["words"]


def test_repair_tells_what_is_whole_and_goes_back_when_told_to(checkpoint, original):
    name = manifest_name(EPOCHS)
    (checkpoint / name).write_bytes(b"damaged")
    report = told("repair", checkpoint, code=1)
    assert (report["ok"], report["whole"]) == (False, list(range(1, EPOCHS)))
    assert [problem["code"] for problem in report["problems"]] == ["MP301"]
    assert f"--to {EPOCHS - 1}" in state("repair", checkpoint, code=1).stdout
    assert told("repair", checkpoint, "--to", EPOCHS, code=1)["error"]["code"] == "MP249"
    done = told("repair", checkpoint, "--to", EPOCHS - 1)
    assert (done["ok"], done["set_aside"]) == (True, [EPOCHS])
    assert words_at(checkpoint) == original[1][EPOCHS - 1]["words"]
    assert [path.read_bytes() for path in (checkpoint / "aside").iterdir()] == [b"damaged"]


def test_every_command_tells_that_there_is_no_checkpoint(tmp_path):
    for words in (["gc"], ["repair"], ["savepoint", "x"]):
        command, *rest = words
        assert told(command, tmp_path / "none", *rest, code=1)["error"]["code"] == "MP350"
    assert told("fork", tmp_path / "none", tmp_path / "new", code=1)["error"]["code"] == "MP350"


def test_a_program_keeps_what_it_is_told_to(tmp_path):
    simulated = Simulated(compile_once(Everything), tmp_path, keep=Keep(last=3, every=8, grace="0 s"))
    for number in range(40):
        simulated.epoch([("word", (str(number % 3),))])
    kept = told("ls", tmp_path / "checkpoint", "--limit", 100)["epochs"]
    assert {8, 16, 24, 32} < {line["epoch"] for line in kept}
    assert len(kept) < 40
    assert told("verify", tmp_path / "checkpoint", "--all")["ok"]
    assert as_json(words_at(tmp_path / "checkpoint")) == {"0": 14, "1": 13, "2": 13}

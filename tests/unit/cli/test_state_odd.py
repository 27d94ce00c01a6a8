"""`millpond state` where names are no text, numbers have no end, and the output has no room: errors, not tracebacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from millpond.checkpoint.records.manifest import manifest_name
from millpond.cli import app
from tests.programs.state_program import run
from tests.sizes import sized
from tests.tidy.tree import ROOT

BYTES = os.fsdecode(b"\xff")
"""A name that is no UTF-8, as Python has it."""

SHOWN = "\\udcff"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    run(folder, 4, 20)
    return folder / "checkpoint"


@pytest.fixture
def checkpoint(original, tmp_path):
    shutil.copytree(original, tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def state(*arguments, code=0):
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def told(*arguments, code=0):
    return json.loads(state(*arguments, "--json", code=code).stdout)


def command(*arguments, **options):
    """The command in a process of its own, as a shell runs it."""
    script = "from millpond.cli import main; main()"
    words = [sys.executable, "-c", script, "state", *map(os.fsencode, map(str, arguments))]
    return subprocess.run(words, cwd=ROOT, check=False, stderr=subprocess.PIPE, **options)


def test_a_strange_file_is_listed_and_its_name_is_escaped(checkpoint):
    (checkpoint / "deltas" / BYTES).touch()
    (checkpoint / "deltas" / "a b").touch()
    report = told("verify", checkpoint, "--all")
    assert (report["ok"], report["strange"]) == (True, ["deltas/a b", f"deltas/{SHOWN}"])
    assert told("verify", checkpoint)["strange"] is None
    text = state("verify", checkpoint, "--all").stdout
    assert "2 strange files" in text
    assert SHOWN in text
    assert told("gc", checkpoint, "--last", 2, "--grace", "0 s")["ok"]
    assert (checkpoint / "deltas" / "a b").exists()


def test_a_strange_file_among_manifests_is_told_and_its_name_is_escaped(checkpoint):
    (checkpoint / "manifests" / BYTES).touch()
    for report in (told("verify", checkpoint, code=1), told("repair", checkpoint, code=1)):
        assert [(each["file"], each["code"]) for each in report["problems"]] == [(f"manifests/{SHOWN}", "MP413")]
    assert report["in_the_way"] == [f"manifests/{SHOWN}"]
    for words in ("verify", "repair"):
        assert SHOWN in state(words, checkpoint, code=1).stdout
    assert "stands in the way" in state("repair", checkpoint, code=1).stdout
    assert state("ls", checkpoint).stdout
    done = command("verify", checkpoint, stdout=subprocess.PIPE)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_a_pipe_among_manifests_is_told_by_its_name_and_gone_past(checkpoint):
    os.mkfifo(checkpoint / "manifests" / "pipe")
    report = told("verify", checkpoint, code=1)
    assert [(each["file"], each["code"]) for each in report["problems"]] == [("manifests/pipe", "MP306")]
    text = state("repair", checkpoint, code=1).stdout
    assert "manifests/pipe stands in the way of a start; --to 4 sets it aside" in text
    assert told("repair", checkpoint, "--to", 4)["ok"]
    assert told("verify", checkpoint, "--all")["ok"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_export_to_a_name_that_is_no_text(checkpoint, tmp_path, suffix):
    target = tmp_path / f"{BYTES}{suffix}"
    assert told("export", checkpoint, "words", "--to", target)["file"] == f"{tmp_path}/{SHOWN}{suffix}"
    assert target.stat().st_size
    assert SHOWN in state("export", checkpoint, "words", "--to", target).stdout
    done = command("export", checkpoint, "words", "--to", target, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert told("export", checkpoint, "words", "--to", f"{BYTES}.txt", code=1)["error"]["code"] == "MP720"
    assert told("export", checkpoint, "words", "--to", tmp_path / BYTES / "x.csv", code=1)["error"]["code"] == "MP718"


def test_a_checkpoint_under_a_name_that_is_no_text(checkpoint, tmp_path):
    odd = tmp_path / BYTES
    shutil.copytree(checkpoint, odd)
    assert told("ls", odd)["checkpoint"] == f"{tmp_path}/{SHOWN}"
    for words in sized((["ls", odd], ["show", odd], ["verify", odd], ["gc", odd]), (["show", odd],)):
        done = command(*words, stdout=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b""), words
    assert told("ls", tmp_path / f"{BYTES}{BYTES}", code=1)["error"]["code"] == "MP350"
    assert SHOWN in state("fork", checkpoint, tmp_path / f"{BYTES}-new", "--copy").stdout


def test_numbers_without_end_are_errors(checkpoint, tmp_path):
    assert told("gc", checkpoint, "--grace", "1e308", code=1)["error"]["code"] == "MP429"
    for digits in (20, 5000):
        error = told("fork", f"{checkpoint}@{'9' * digits}", tmp_path / "new", code=1)["error"]
        assert error["code"] == "MP450"
    assert told("ls", f"redis://host/{'1' * 5000}/x", code=1)["error"]["code"] == "MP311"


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--epoch", 0],
        ["show", "--epoch", "x"],
        ["shw"],
        ["get"],
        ["verify", "--all", "--epoch", 2],
        ["savepoint", "a", "--epoch", 1, "--delete"],
        ["gc", "--last", 0],
        ["ls", "--jsno"],
    ],
    ids=str,
)
def test_a_command_line_without_sense_is_told_as_it_is_asked_for(checkpoint, words):
    name, *rest = words
    error = told(name, checkpoint, *rest, code=2)
    assert (error["ok"], error["error"]["code"]) == (False, "MP721")
    assert error["error"]["found"]
    result = state(name, checkpoint, *rest, code=2)
    assert (result.stdout, "Usage" in result.stderr) == ("", True)
    # A key that is called so asks for nothing.
    assert state("get", checkpoint, "words", "a", "b", "c", "--", "--json", code=2).stdout == ""


def test_an_output_without_room_is_told_in_short(checkpoint):
    for words in (["ls", checkpoint], ["verify", checkpoint, "--json"], ["ls", checkpoint / "none", "--json"]):
        with Path("/dev/full").open("wb") as full:
            done = command(*words, stdout=full)
        assert done.returncode == 1, words
        assert done.stderr.startswith(b"MP718 the output can't be written"), words
        assert b"Traceback" not in done.stderr
        assert b"Exception ignored" not in done.stderr


def test_an_output_that_nobody_reads_is_no_error_worth_telling(checkpoint):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = command("ls", checkpoint, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)


def test_lost_epochs_are_told(checkpoint):
    (checkpoint / manifest_name(2)).unlink()
    report = told("verify", checkpoint, code=1)
    assert [(each["code"], each["first_epoch"], each["last_epoch"]) for each in report["problems"]] == [("MP457", 2, 2)]
    shutil.rmtree(checkpoint / "manifests")
    assert [each["code"] for each in told("verify", checkpoint, code=1)["problems"]] == ["MP457"]
    assert "MP457" in state("verify", checkpoint, code=1).stdout


def test_another_scheme_is_refused(checkpoint):
    for scheme in ("perkey", "log", "rocksdb"):
        for words in (["ls"], ["show"], ["verify"], ["gc"]):
            assert told(*words, f"{scheme}://{checkpoint}", code=1)["error"]["code"] == "MP358"

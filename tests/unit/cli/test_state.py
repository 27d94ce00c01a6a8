"""`millpond state` on checkpoints of a program with every kind of state, compared with the program as plain Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from typer.testing import CliRunner

from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.plain import as_json, as_text
from millpond.checkpoint.records.offers import Batch, BoundedRun
from millpond.checkpoint.snapshots import snapshots
from millpond.cli import app
from millpond.cli.stateshow import Report
from millpond.storage.backends.files import FileStorage
from tests.programs.state_program import ELEMENTS, run
from tests.sizes import sized
from tests.tidy.tree import ROOT
from tests.unit.checkpoint.reading_histories import Made

EPOCHS = 6


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint with snapshots, and the plain state after each of its epochs."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
        tables = run(folder, EPOCHS, 120)
    return folder / "checkpoint", tables


def state(*arguments, code=0):
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def told(*arguments, code=0) -> Report:
    return json.loads(state(*arguments, "--json", code=code).stdout)


def key_text(key) -> str:
    plain = as_json(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def ordered(line) -> str:
    return json.dumps(line, sort_keys=True)


def test_ls_lists_what_was_committed(checkpoint):
    folder, _ = checkpoint
    report = told("ls", folder)
    assert [line["epoch"] for line in report["epochs"]] == list(range(1, EPOCHS + 1))
    assert report["kept"] == EPOCHS
    assert all(line["rows"] == 120 and line["partitions"] == 3 for line in report["epochs"])
    assert report["epochs"][-1]["snapshot_epoch"] > 0
    assert report["epochs"][-1]["snapshot_bytes"] > 0
    for line in report["epochs"]:
        manifest, digest = History(FileStorage(folder)).manifest(line["epoch"])
        assert line["hash"] == digest
        assert line["delta_bytes"] == sum(file.file.size_bytes for file in manifest.deltas[-1].files)
        shown = told("show", folder, "--epoch", line["epoch"])
        assert line["entries"] == sum(element["entries"] for element in shown["elements"])
    limited = told("ls", folder, "--limit", 2)
    assert [line["epoch"] for line in limited["epochs"]] == [EPOCHS - 1, EPOCHS]
    text = state("ls", folder, "--limit", 2).stdout
    assert f"{EPOCHS} epochs kept, the newest 2 shown" in text
    assert "batch 5 of simulated" in text
    assert "batch 3 of simulated" not in text


@pytest.mark.parametrize("epoch", [1, 4, EPOCHS, None])
def test_show_counts_what_the_plain_program_holds(checkpoint, epoch):
    folder, tables = checkpoint
    chosen = () if epoch is None else ("--epoch", epoch)
    report = told("show", folder, *chosen, "--groups")
    number = epoch or EPOCHS
    assert report["epoch"] == number
    by_name = {element["name"]: element for element in report["elements"]}
    for name in set(ELEMENTS) - {"counts"}:
        assert by_name[name]["entries"] == len(tables[number][name])
    for element in by_name.values():
        assert sum(group["entries"] for group in element["groups"]) == element["entries"]
        assert sum(group["bytes"] for group in element["groups"]) == element["bytes"]
    assert by_name["spots"]["key"] == "tuple[str, int]"
    assert by_name["ratings"]["by"] == "row"
    assert sum(n for name, n in report["counters"].items() if name.startswith("total.fed.")) == 120 * number
    text = state("show", folder, *chosen).stdout
    for name in ELEMENTS:
        assert name in text


@pytest.mark.parametrize("element", [element for element in ELEMENTS if element != "counts"])
def test_get_gives_every_value_of_the_plain_program(checkpoint, element):
    folder, tables = checkpoint
    for epoch in (2, EPOCHS):
        for key, value in list(tables[epoch][element].items())[:: sized(1, 5)]:
            where = () if element == "total" else ("--", key_text(key))
            found = json.loads(state("get", folder, element, "--epoch", epoch, "--json", *where).stdout)
            wanted = {"epoch": epoch, "element": element, "key": as_json(key), "value": as_json(value)}
            assert found == wanted
    if element != "ratings":  # Rows of a matrix are stored in the order in which their cells were set.
        assert state("get", folder, element, *where).stdout.rstrip("\n") == as_text(value)


def test_get_of_partial_state_gives_instances_that_sum_up(checkpoint):
    folder, tables = checkpoint
    for word, count in tables[-1]["counts"].items():
        found = told("get", folder, "counts", word)["instances"]
        assert sum(part["value"] for part in found) == count
        for part in found:
            one = told("get", folder, "counts", word, "--instance", part["instance"])["instances"]
            assert one == [part]
    assert "instance" in state("get", folder, "counts", word).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("wrods", "a"), "MP240"),
        (("words", "nobody"), "MP242"),
        (("words",), "MP241"),
        (("ratings", "x"), "MP241"),
        (("prices", "2024-02-31"), "MP241"),
        (("spots", '["a"]'), "MP241"),
        (("total", "x"), "MP241"),
        (("words", "a", "--instance", "0"), "MP243"),
        (("counts", "a", "--instance", "99"), "MP243"),
        (("words", "a", "--epoch", "99"), "MP450"),
    ],
)
def test_get_says_what_is_wrong(checkpoint, arguments, code):
    folder, _ = checkpoint
    result = state("get", folder, *arguments, code=1)
    assert result.stderr.startswith(code)
    assert result.stdout == ""
    assert told("get", folder, *arguments, code=1)["error"]["code"] == code


@pytest.mark.parametrize(("before", "after"), [(0, EPOCHS), (2, 5), (5, 2), (3, 3)])
def test_diff_is_the_difference_of_the_plain_programs(checkpoint, before, after):
    folder, tables = checkpoint
    lines = [json.loads(line) for line in state("diff", folder, before, after, "--json").stdout.splitlines()]
    *changes, totals = lines
    wanted = []
    for element in set(ELEMENTS) - {"counts"}:
        old, new = tables[before][element], tables[after][element]
        for key in {*old, *new}:
            if key in old and key in new and old[key] == new[key]:
                continue
            change = "added" if key not in old else "removed" if key not in new else "changed"
            line = {"element": element, "change": change}
            line |= {} if element == "total" else {"key": as_json(key)}
            line |= {"old": as_json(old[key])} if key in old and element != "seen" else {}
            line |= {"new": as_json(new[key])} if key in new and element != "seen" else {}
            wanted.append(line)
    found = [line for line in changes if line["element"] != "counts"]
    assert sorted(map(ordered, found)) == sorted(map(ordered, wanted))
    moved = Counter()
    for line in (line for line in changes if line["element"] == "counts"):
        moved[line["key"]] += line.get("new", 0) - line.get("old", 0)
    words = {**tables[before]["counts"], **tables[after]["counts"]}
    grown = {word: tables[after]["counts"].get(word, 0) - tables[before]["counts"].get(word, 0) for word in words}
    assert {word: n for word, n in moved.items() if n} == {word: n for word, n in grown.items() if n}
    kinds = Counter(line["change"] for line in changes)
    assert totals == {"from": before, "to": after, **{kind: kinds[kind] for kind in ("added", "changed", "removed")}}


def test_diff_for_people_has_a_line_for_each_change(checkpoint):
    folder, _ = checkpoint
    *changes, totals = map(json.loads, state("diff", folder, 2, 5, "--json").stdout.splitlines())
    text = state("diff", folder, 2, 5).stdout
    assert len([line for line in text.splitlines() if line.startswith(("  + ", "  ~ ", "  - "))]) == len(changes)
    assert f"epoch 2 to 5: {totals['added']} added, {totals['changed']} changed" in text
    only = state("diff", folder, 2, 5, "--element", "words").stdout
    assert "words: partitioned map[str, int]" in only
    assert "spots" not in only
    assert state("diff", folder, 2, 5, "--element", "x", code=1).stderr.startswith("MP240")
    assert state("diff", folder, 2, 99, code=1).stderr.startswith("MP450")
    assert state("diff", folder, 3, 3).stdout == "epoch 3 to 3: 0 added, 0 changed, 0 removed\n"


def test_verify_of_a_whole_checkpoint_is_zero_and_of_a_damaged_one_is_one(checkpoint, tmp_path):
    folder, _ = checkpoint
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    for chosen in ((), ("--all",), ("--epoch", 3), ("--all", "--outputs")):
        assert "all well" in state("verify", copied, *chosen).stdout
    report = told("verify", copied, "--all")
    assert report["ok"]
    assert (report["epochs"], report["problems"]) == (EPOCHS, [])
    victim = History(FileStorage(copied)).point().files()[0].file.name
    data = bytearray((copied / victim).read_bytes())
    data[40] ^= 4
    (copied / victim).write_bytes(data)
    for chosen in ((), ("--all",)):
        text = state("verify", copied, *chosen, code=1).stdout
        assert f"MP310 {victim}" in text
        assert "1 problems" in text
    report = told("verify", copied, code=1)
    assert not report["ok"]
    (problem,) = report["problems"]
    assert (problem["code"], problem["file"], problem["last_epoch"]) == ("MP310", victim, EPOCHS)
    (copied / victim).unlink()
    assert told("verify", copied, code=1)["problems"][0]["code"] == "MP304"
    state("verify", copied, "--all", "--epoch", 2, code=2)
    assert state("verify", copied, "--epoch", 77, code=1).stderr.startswith("MP450")


def test_ls_goes_on_behind_a_damaged_manifest(checkpoint, tmp_path):
    copied = tmp_path / "copy"
    shutil.copytree(checkpoint[0], copied)
    (copied / "manifests" / "0000000003").write_bytes(b"junk")
    result = state("ls", copied, code=1)
    assert "MP301 manifests/0000000003 is damaged" in result.stdout
    assert "batch 5 of simulated" in result.stdout
    report = told("ls", copied, code=1)
    assert [line["epoch"] for line in report["epochs"] if "error" in line] == [3]
    assert not report["ok"]


@pytest.mark.parametrize("command", [("ls",), ("show",), ("get", "x", "y"), ("diff", 0, 1), ("verify",)])
def test_what_is_no_checkpoint_is_one_and_nothing_is_made_there(tmp_path, command):
    name, *rest = command
    where = tmp_path / "nothing"
    assert state(name, where, *rest, code=1).stderr.startswith("MP350")
    assert told(name, where, *rest, code=1)["error"]["code"] == "MP350"
    assert not where.exists()


def test_an_empty_checkpoint_shows_as_empty(tmp_path):
    run(tmp_path, 0, 0)
    folder = tmp_path / "checkpoint"
    assert "0 epochs kept" in state("ls", folder).stdout
    assert told("show", folder)["epoch"] == 0
    assert "words" in state("show", folder).stdout
    assert "all well" in state("verify", folder).stdout
    assert state("get", folder, "words", "a", code=1).stderr.startswith("MP242")


def test_runs_and_rescales_and_text_of_a_foreign_hand_are_shown_safely(tmp_path):
    checkpoint = Made(FileStorage(tmp_path))
    checkpoint.epoch([("words", {(None, "\x1b[31mred[/]"): 1})], offer=BoundedRun("back\x1bfill [bold]", ("a\nb",)))
    checkpoint.rescale(4)
    checkpoint.epoch([], offer=Batch("0f0e0d0c-1234-4234-8234-123456789abc", 7, ("x",)))
    text = state("ls", tmp_path).stdout
    assert r"run back\x1bfill [bold]" in text
    assert "rescale to 4 instances" in text
    assert "batch 7 of 0f0e0d0c" in text
    assert "\x1b" not in text
    assert r"a\nb" in state("show", tmp_path, "--epoch", 1).stdout
    assert r"+ '\x1b[31mred[/]': 1" in state("diff", tmp_path, 0, 1).stdout
    assert told("show", tmp_path, "--epoch", 2)["instances"] == 4


def test_reading_changes_nothing_and_loads_neither_spark_nor_the_program(checkpoint, tmp_path):
    folder, _ = checkpoint
    before = {file: file.stat() for file in folder.rglob("*")}
    script = f"""
import sys
from typer.testing import CliRunner
import millpond.front.frames
from millpond.cli import app
for words in (["ls"], ["show"], ["get", "total"], ["diff", "1", "2"], ["verify", "--all"]):
    result = CliRunner().invoke(app, ["state", words[0], {str(folder)!r}, *words[1:]])
    assert result.exit_code == 0, result.output
out = {str(tmp_path / "x.parquet")!r}
assert CliRunner().invoke(app, ["state", "export", {str(folder)!r}, "spots", "--to", out]).exit_code == 0
loaded = [name for name in ("pyspark", "tests.programs.state_program", "state_program") if name in sys.modules]
sys.exit(", ".join(loaded) or 0)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    after = {file: file.stat() for file in folder.rglob("*")}
    assert {file: (stat.st_size, stat.st_mtime_ns) for file, stat in before.items()} == {
        file: (stat.st_size, stat.st_mtime_ns) for file, stat in after.items()
    }


def test_a_manifest_that_is_read_by_hand_is_what_show_says(checkpoint):
    folder, _ = checkpoint
    report = told("show", folder, "--epoch", 5)
    manifest, _ = History(FileStorage(folder)).manifest(5)
    assert report["sources"] == list(manifest.offer.sources)
    assert report["counters"] == manifest.counters
    assert report["parent"] == manifest.parent
    files = [file["file"] for delta in report["deltas"] for file in delta["files"]]
    assert files == [file.file.name for delta in manifest.deltas for file in delta.files]
    assert [output["rows"] for output in report["outputs"]] == [output.rows for output in manifest.outputs]

"""Between the commit and publication, a file of replies that is not the one that was staged reaches no sink."""

from __future__ import annotations

import random
import shutil

import msgspec
import pytest

from millpond.engine.publish.replies import STAGING
from millpond.engine.publish.staging import HANDED
from millpond.errors import StorageError
from millpond.sinks.console import console
from millpond.sinks.functions import foreach_epoch
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from tests.unit.engine.publish.test_publish import REPLIES, Stage

SEEDS = range(60)


def flip(path, chance):
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def cut(path, chance):
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def grow(path, chance):
    path.write_bytes(path.read_bytes() + bytes(chance.randrange(1, 9)))


def swap(path, chance):
    others = sorted(other for other in path.parent.iterdir() if other != path)
    path.write_bytes(chance.choice(others).read_bytes())


DAMAGES = (flip, flip, flip, cut, grow, swap)


@pytest.mark.parametrize("kind", ["parquet", "memory", "console", "foreach_epoch"])
def test_a_damaged_file_of_replies_is_told_and_nothing_of_it_is_seen(tmp_path, kind, capsys):
    for seed in SEEDS:
        chance = random.Random(seed)
        given = []
        sink = {
            "parquet": parquet(tmp_path / str(seed)),
            "memory": memory(),
            "console": console(10),
            "foreach_epoch": foreach_epoch(lambda rows, _epoch, given=given: given.append(rows)),
        }[kind]
        work = Stage(tmp_path / str(seed), visible=kind == "parquet")
        whole = {path: path.read_bytes() for path in (work.root / STAGING).iterdir()}
        damaged = chance.choice(sorted(whole))
        DAMAGES[seed % len(DAMAGES)](damaged, chance)
        with pytest.raises(StorageError) as caught:
            work.publish(sink)
        assert (caught.value.code, damaged.name in str(caught.value)) == ("MP321", True), seed
        assert work.published() == []
        assert capsys.readouterr().out == ""
        assert given == []
        assert kind != "memory" or sink.rows() == []
        damaged.write_bytes(whole[damaged])
        work.publish(sink)
        assert work.published() == (work.names() if kind == "parquet" else [])
        assert kind != "memory" or [row["reply"] for row in sink.rows()] == REPLIES
        assert ("epoch 1:" in capsys.readouterr().out) == (kind == "console")


def test_a_file_that_was_published_before_is_its_readers_business(tmp_path):
    work = Stage(tmp_path / "sink")
    first = work.names()[0]
    (work.root / first).hardlink_to(work.root / STAGING / first)
    flip(work.root / first, random.Random(1))
    work.publish(parquet(work.root))
    assert work.published() == work.names()


def test_a_link_in_the_place_of_the_folder_of_staged_files_is_refused_and_nothing_behind_it_is_deleted(tmp_path):
    work = Stage(tmp_path / "sink")
    (work.root / STAGING).rename(tmp_path / "elsewhere")
    (work.root / STAGING).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="MP306"):
        work.publish(parquet(work.root))
    assert len(list((tmp_path / "elsewhere").iterdir())) == len(work.names())


def lost(folder, how):
    """Take away what waits, as a whole."""
    if how == "files":
        for path in folder.iterdir():
            path.unlink()
    else:
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["parquet", "memory", "foreach_epoch"])
@pytest.mark.parametrize("how", ["files", "folder"])
def test_replies_that_were_all_lost_before_they_were_seen_are_missed(tmp_path, kind, how):
    work = Stage(tmp_path / "sink", visible=kind == "parquet")
    # As after the epochs before this one.
    (work.root / HANDED).mkdir()
    given = []
    sink = {"parquet": parquet(work.root), "memory": memory(), "foreach_epoch": foreach_epoch(given.append)}[kind]
    lost(work.root / STAGING, how)
    for _ in range(2):
        with pytest.raises(StorageError, match="MP320"):
            work.publish(sink)
    assert work.published() == given == []


@pytest.mark.parametrize("wiped", [True, False])
def test_replies_that_were_seen_are_not_missed_when_their_readers_took_them(tmp_path, wiped):
    work = Stage(tmp_path / "sink")
    work.publish(parquet(work.root))
    for path in list(work.root.glob("*")):
        if path.is_file():
            path.unlink()
        elif wiped:
            shutil.rmtree(path)
    work.publish(parquet(work.root))
    assert work.published() == []


def test_files_that_an_overtaken_driver_stages_again_are_not_published_again(tmp_path):
    work = Stage(tmp_path / "sink")
    kept = {path.name: path.read_bytes() for path in (work.root / STAGING).iterdir()}
    work.publish(parquet(work.root))
    for name in work.published():
        (work.root / name).unlink()
    for name in list(kept)[:2]:
        (work.root / STAGING / name).write_bytes(kept[name])
    work.publish(parquet(work.root))
    assert work.published() == work.staged() == []


@pytest.mark.parametrize("visible", [True, False])
def test_an_epoch_of_a_version_without_notes_is_taken_for_published_when_nothing_waits(tmp_path, visible):
    work = Stage(tmp_path / "sink", visible=visible)
    outputs = tuple(msgspec.structs.replace(output, noted=False) for output in work.manifest.outputs)
    work.manifest = msgspec.structs.replace(work.manifest, outputs=outputs)
    lost(work.root / STAGING, "files")
    sink = parquet(work.root) if visible else memory()
    work.publish(sink)
    assert work.published() == []

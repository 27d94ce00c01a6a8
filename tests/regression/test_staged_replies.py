"""Between the commit and publication, a file of replies that is not the one that was staged reaches no sink."""

from __future__ import annotations

import random

import pytest

from millpond.errors import StorageError
from millpond.program.sinks import console, foreach_epoch, memory, parquet
from millpond.runtime.replies import STAGING
from tests.unit.runtime.test_publish import REPLIES, Stage

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
def test_a_damaged_file_of_replies_is_told_and_nothing_of_it_is_seen(tmp_path, kind):
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
        assert work.calls == given == []
        assert kind != "memory" or sink.rows() == []
        damaged.write_bytes(whole[damaged])
        work.publish(sink)
        assert work.published() == (work.names() if kind == "parquet" else [])
        assert kind != "memory" or [row["reply"] for row in sink.rows()] == REPLIES


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

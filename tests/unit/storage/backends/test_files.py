from __future__ import annotations

import errno
import os
import stat

import pytest

from millpond.clock import ManualClock
from millpond.errors import StorageError
from millpond.storage.backends.files import STAGING, STAGING_AGE_MAX_MS, FileStorage
from millpond.storage.contract import PutOutcome
from millpond.storage.door import Door


class FailingDoor(Door):
    """Fails one kind of call, every time."""

    def __init__(self, call, number):
        self.calls = []
        self._error = lambda *args: self._fail(call, number)
        setattr(self, call, self._error)

    def _fail(self, call, number):
        self.calls.append(call)
        raise OSError(number, os.strerror(number))


def code_of(call):
    with pytest.raises(StorageError) as caught:
        call()
    return caught.value.code


def test_files_and_folders_are_for_their_owner_only(tmp_path):
    FileStorage(tmp_path / "c").put("deltas/a", b"x")
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "c" / "deltas").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "c" / "deltas" / "a").stat().st_mode) == 0o600


def test_opening_or_reading_makes_no_folder(tmp_path):
    storage = FileStorage(tmp_path / "c")
    assert storage.list("") == []
    assert not storage.contains("x")
    assert not (tmp_path / "c").exists()


def test_a_put_leaves_nothing_staged(tmp_path):
    storage = FileStorage(tmp_path)
    storage.put("a", b"x")
    storage.put("a", b"y")
    assert list((tmp_path / STAGING).iterdir()) == []


def test_one_who_puts_a_name_while_another_has_staged_it_wins_and_both_contents_stay_whole(tmp_path):
    outcomes = []

    class LateDoor(Door):
        """Lets another writer put the name between the sync of what was staged and its link."""

        def link(self, staged, path):
            outcomes.append(FileStorage(tmp_path).put("a", b"the other"))
            super().link(staged, path)

    outcomes.append(FileStorage(tmp_path, LateDoor()).put("a", b"late"))
    assert outcomes == [PutOutcome.WON, PutOutcome.PRESENT]
    assert FileStorage(tmp_path).get("a") == b"the other"


def test_a_link_to_a_file_is_never_read(tmp_path):
    (tmp_path / "secret").write_bytes(b"s")
    storage = FileStorage(tmp_path / "c")
    storage.put("deltas/a", b"x")
    (tmp_path / "c" / "deltas" / "b").symlink_to(tmp_path / "secret")
    assert code_of(lambda: storage.get("deltas/b")) == "MP306"
    assert code_of(lambda: storage.contains("deltas/b")) == "MP306"
    assert storage.list("deltas") == ["deltas/a", "deltas/b"], "listed, and in nobody's way"
    assert code_of(lambda: storage.put("deltas/b", b"y")) == "MP306"
    storage.delete("deltas/b")
    assert (tmp_path / "secret").read_bytes() == b"s"


def test_a_link_to_a_folder_is_never_entered(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_bytes(b"s")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "deltas").symlink_to(tmp_path / "elsewhere")
    storage = FileStorage(tmp_path / "c")
    assert code_of(lambda: storage.get("deltas/a")) == "MP306"
    assert code_of(lambda: storage.put("deltas/b", b"y")) == "MP306"
    assert code_of(lambda: storage.list("deltas")) == "MP306"
    assert code_of(lambda: storage.delete("deltas/a")) == "MP306"
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["a"]


def test_the_root_itself_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "c").symlink_to(tmp_path / "disk")
    FileStorage(tmp_path / "c").put("a", b"x")
    assert FileStorage(tmp_path / "disk").get("a") == b"x"


def test_a_pipe_in_the_place_of_a_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(StorageError):
        FileStorage(tmp_path).get("a")


def test_staged_files_are_swept_only_when_they_are_old(tmp_path):
    clock = ManualClock(10 * STAGING_AGE_MAX_MS)
    (tmp_path / STAGING).mkdir()
    for name, age_ms in (("old", STAGING_AGE_MAX_MS + 1000), ("young", STAGING_AGE_MAX_MS - 1000)):
        (tmp_path / STAGING / name).write_bytes(b"left over")
        seconds = (clock.now_ms() - age_ms) / 1000
        os.utime(tmp_path / STAGING / name, (seconds, seconds))
    FileStorage(tmp_path, clock=clock)
    assert [path.name for path in (tmp_path / STAGING).iterdir()] == ["young"]


@pytest.mark.parametrize(
    ("call", "number", "code"),
    [
        ("create", errno.ENOSPC, "MP307"),
        ("write", errno.ENOSPC, "MP307"),
        ("write", errno.EDQUOT, "MP307"),
        ("sync", errno.ENOSPC, "MP307"),
        ("mkdir", errno.EACCES, "MP309"),
        ("create", errno.EMFILE, "MP309"),
        ("create", errno.ENOENT, "MP309"),
        ("write", errno.EIO, "MP309"),
        ("sync", errno.EIO, "MP308"),
        ("sync_folder", errno.EIO, "MP308"),
        ("link", errno.EIO, "MP309"),
        ("link", errno.EPERM, "MP313"),
        ("link", errno.EOPNOTSUPP, "MP313"),
        ("entry", errno.EIO, "MP309"),
    ],
)
def test_each_failure_of_the_disk_has_its_code(tmp_path, call, number, code):
    storage = FileStorage(tmp_path / "c", FailingDoor(call, number))
    assert code_of(lambda: storage.put("a", b"x")) == code


def test_nothing_is_synced_or_put_after_a_failed_sync(tmp_path):
    FileStorage(tmp_path / "c").put("before", b"x")
    door = FailingDoor("sync", errno.EIO)
    storage = FileStorage(tmp_path / "c", door)
    assert code_of(lambda: storage.put("a", b"x")) == "MP308"
    assert code_of(lambda: storage.put("b", b"x")) == "MP308"
    assert door.calls == ["sync"]
    assert storage.get("before") == b"x"


def test_a_full_disk_leaves_the_storage_usable(tmp_path):
    door = FailingDoor("write", errno.ENOSPC)
    storage = FileStorage(tmp_path / "c", door)
    assert code_of(lambda: storage.put("a", b"x")) == "MP307"
    assert list((tmp_path / "c" / STAGING).iterdir()) == []
    del door.write
    assert storage.put("a", b"x") is PutOutcome.WON


def test_a_failure_to_clean_up_does_not_undo_a_put(tmp_path):
    storage = FileStorage(tmp_path / "c", FailingDoor("unlink", errno.EIO))
    assert storage.put("a", b"x") is PutOutcome.WON
    assert FileStorage(tmp_path / "c").get("a") == b"x"


def test_a_name_that_is_taken_is_durable_before_put_returns(tmp_path):
    FileStorage(tmp_path / "c").put("deltas/a", b"x")
    synced = []

    class WatchingDoor(Door):
        def sync_folder(self, path):
            synced.append(path)
            super().sync_folder(path)

    storage = FileStorage(tmp_path / "c", WatchingDoor())
    storage.put("deltas/b", b"x")
    synced.clear()
    assert storage.put("deltas/a", b"x") is PutOutcome.PRESENT
    assert tmp_path / "c" / "deltas" in synced


def test_writes_that_take_one_byte_at_a_time_still_write_all(tmp_path):
    class SlowDoor(Door):
        def write(self, descriptor, data):
            return super().write(descriptor, data[:1])

    FileStorage(tmp_path, SlowDoor()).put("a", b"whole content")
    assert FileStorage(tmp_path).get("a") == b"whole content"


class ShortReads(Door):
    """Gives two bytes at a time."""

    def read_at(self, descriptor, size, offset):
        return super().read_at(descriptor, min(size, 2), offset)


@pytest.mark.parametrize("door", [Door(), ShortReads()])
def test_parts_of_a_file_are_read_whole_up_to_its_end(tmp_path, door):
    storage = FileStorage(tmp_path, door)
    storage.put("deltas/a", b"0123456789")
    assert list(storage.get_parts("deltas/a", [(2, 7), (0, 1), (4, 4), (8, 20)])) == [b"23456", b"0", b"", b"89"]


def test_parts_of_what_is_not_there_or_no_file_are_refused(tmp_path):
    storage = FileStorage(tmp_path)
    assert code_of(lambda: storage.get_parts("deltas/a", [(0, 1)])) == "MP304"
    storage.put("deltas/b", b"x")
    (tmp_path / "deltas" / "a").symlink_to(tmp_path / "deltas" / "b")
    os.mkfifo(tmp_path / "deltas" / "c")
    linked, pipe = (code_of(lambda name=name: storage.get_parts(name, [(0, 1)])) for name in ("deltas/a", "deltas/c"))
    assert linked == code_of(lambda: storage.get("deltas/a"))
    assert pipe.startswith("MP3")

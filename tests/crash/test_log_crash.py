"""The append-only log when the machine dies after any call, when any call fails, and when its process is killed."""

from __future__ import annotations

import errno
import os
import signal
import traceback

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.crashpoints import VARIABLE
from millpond.errors import StorageError
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.contract import PutOutcome
from millpond.storage.door import Door
from tests.crash.log_disk import LogModelDoor
from tests.crash.model_disk import Named, PowerCutError
from tests.programs.ledger import BATCHES, open_ledger, run_batch, state_after

pytestmark = pytest.mark.slow

ROOT = "/data/log"


def open_log(door=None, root=ROOT, file_bytes_max=600, index_records_min=9):
    options = {"file_bytes_max": file_bytes_max, "index_records_min": index_records_min}
    return LogStorage(root, door or Door(), ManualClock(), **options)


class Story:
    """A script of puts and deletions, and what the world was told of each, and when."""

    def __init__(self):
        self.acknowledged = {}
        self.begun_deletions = {}
        self.contents = {}

    def steps(self):
        """Names are used again, files fill and are collected, and the log is compacted."""
        for number in range(12):
            yield "put", f"d/{number}", b"%d first" % number * 6
        for number in (0, 1, 2, 4, 5, 7, 8):
            yield "delete", f"d/{number}", b""
        for number in (0, 5):
            yield "put", f"d/{number}", b"%d again" % number * 9
        yield "compact", "", b""
        for number in range(20, 26):
            yield "put", f"d/{number}", b"%d last" % number * 6

    def run(self, storage, now=lambda: 0):
        for what, name, data in self.steps():
            if what == "put":
                self.contents.setdefault(name, []).append(data)
                assert storage.put(name, data) is PutOutcome.WON
                self.acknowledged.setdefault(name, []).append((now(), data))
            elif what == "delete":
                self.begun_deletions.setdefault(name, []).append(now())
                storage.delete(name)
            else:
                storage.compact()

    def violation(self, storage, cut=0):
        """What is wrong with what is there, if the machine died at a time; None if nothing is."""
        found = {name: storage.get(name) for name in storage.list("")}
        for name, data in found.items():
            if data not in self.contents[name]:
                return f"{name} has a content that nobody put"
        for name, puts in self.acknowledged.items():
            told = [data for when, data in puts if when <= cut]
            deleted = sum(when <= cut for when in self.begun_deletions.get(name, ()))
            if len(told) > deleted and found.get(name) != told[-1]:
                return f"{name} was acknowledged and is {'not there' if name not in found else 'another'}"
        return None


def violations(story, door, cuts):
    found, seen = [], set()
    for cut in cuts:
        for tree in door.after_power_cut(cut):
            known = (repr(sorted(tree.items())), cut)
            if known in seen:
                continue
            seen.add(known)
            left = LogModelDoor(tree)
            try:
                wrong = story.violation(open_log(left), cut)
                if wrong is None:
                    again = open_log(left)
                    again.put("d/new", b"new")
                    story.contents["d/new"] = [b"new"]
                    wrong = story.violation(open_log(left), cut)
                    if open_log(left).get("d/new") != b"new":
                        wrong = "what was put after the power cut is lost"
            except StorageError as error:
                wrong = str(error)
            if wrong is not None:
                found.append((cut, wrong))
    return found, len(seen)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.campaign)], ids=["some calls", "any call"])
def test_after_a_power_cut_what_was_acknowledged_is_there_and_nothing_else_is_wrong(step):
    door, story = LogModelDoor(), Story()
    story.run(open_log(door), now=lambda: len(door.log))
    found, states = violations(story, door, range(0, len(door.log) + 1, step))
    assert found == []
    assert states > 1000 // step, states


class Part(Story):
    """A few steps of a story, after which only what is looked at follows."""

    def __init__(self, *steps):
        super().__init__()
        self._steps = steps

    def steps(self):
        return iter(self._steps)


def test_an_index_never_speaks_of_records_that_a_power_cut_can_take_away():
    """Deletions are not synced, so an index that knows of them must see to it."""
    puts = [("put", f"d/{number}", b"%d" % number * 8) for number in range(4)]
    door, story = LogModelDoor(), Part(*puts, ("delete", "d/1", b""), ("delete", "d/2", b""))
    storage = open_log(door, index_records_min=10**6)
    story.run(storage, now=lambda: len(door.log))
    before = len(door.log)
    storage.write_index()
    found, _ = violations(story, door, range(before, len(door.log) + 1))
    assert found == []


def test_what_compaction_moved_is_durable_before_the_old_file_goes():
    puts = [("put", f"d/{number}", b"%d" % number * 30) for number in range(12)]
    deletions = [("delete", f"d/{number}", b"") for number in (0, 2, 4)]
    door, story = LogModelDoor(), Part(*puts, *deletions)
    storage = open_log(door, index_records_min=10**6)
    story.run(storage, now=lambda: len(door.log))
    before = len(door.log)
    storage.compact()
    assert any(isinstance(record, Named) and record.inode is None for record in door.log[before:]), (
        "nothing was emptied"
    )
    found, _ = violations(story, door, range(before, len(door.log) + 1))
    assert found == []


def test_a_process_that_died_before_a_sync_leaves_nothing_that_others_are_told_of_unsynced():
    whole = LogModelDoor()
    Story().run(open_log(whole))
    for death in range(10, len(whole.log), 7):
        door, story = LogModelDoor(), Story()
        door.dies_after = death
        with pytest.raises(PowerCutError):
            story.run(open_log(door), now=lambda door=door: len(door.log))
        door.dies_after = None
        reader = open_log(door)
        # Reading is being told: what a reader has seen must survive.
        seen = {name: reader.get(name) for name in reader.list("")}
        for tree in door.after_power_cut(len(door.log)):
            left = open_log(LogModelDoor(tree))
            gone = {name for name in seen if not left.contains(name)}
            assert not gone, (death, gone)


@pytest.mark.parametrize("forgotten", ["sync", "sync_data", "sync_folder"])
def test_a_door_that_forgets_a_sync_is_found_out(forgotten):
    door, story = LogModelDoor(forgets=frozenset({forgotten})), Story()
    steps = list(story.steps())[:4]
    story.steps = lambda: steps
    story.run(open_log(door, file_bytes_max=250), now=lambda: len(door.log))
    found, _ = violations(story, door, range(len(door.log) + 1))
    assert found


CALLS = (
    *("create", "write", "sync", "close", "rename", "unlink", "mkdir", "sync_folder", "listdir", "entry"),
    *("open", "size", "read_at", "write_at", "truncate", "sync_data", "lock"),
)


class FaultyDoor(Door):
    """Fails at the nth call, once."""

    def __init__(self, nth=0, number=errno.EIO):
        self.nth, self.number, self.count, self.failed, self.after = nth, number, 0, None, []

    def passes(self, call):
        if self.failed:
            self.after.append(call)
        self.count += 1
        if self.count == self.nth:
            self.failed = call
            raise OSError(self.number, os.strerror(self.number))


def _guarded(call):
    real = getattr(Door, call)

    def method(self, *args, **options):
        self.passes(call)
        return real(self, *args, **options)

    return method


for _call in CALLS:
    setattr(FaultyDoor, _call, _guarded(_call))


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.campaign)], ids=["some calls", "any call"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_an_error_of_the_disk_is_coded_and_loses_nothing(tmp_path, number, step):
    counting = FaultyDoor()
    Story().run(open_log(counting, tmp_path / "counted"))
    assert counting.count > 250
    failures = 0
    for nth in range(1, counting.count + 1, step):
        door, story = FaultyDoor(nth, number), Story()
        root = tmp_path / f"at-{nth}"
        try:
            story.run(open_log(door, root))
            code = None
        except StorageError as error:
            code = error.code
            failures += 1
        assert code in {None, "MP307", "MP308", "MP309"}, nth
        if code == "MP308":
            assert not {"sync", "sync_data", "sync_folder"} & set(door.after), nth
        assert story.violation(open_log(Door(), root)) is None, (nth, door.failed)
        storage = open_log(Door(), root)
        assert storage.put("d/new", b"new") is PutOutcome.WON
        story.contents["d/new"] = [b"new"]
        assert story.violation(open_log(Door(), root)) is None, (nth, door.failed)
    assert failures > counting.count // step // 3


def test_after_a_failed_sync_the_storage_refuses_to_write(tmp_path):
    door = FaultyDoor()
    storage = open_log(door, tmp_path)
    storage.put("d/1", b"x")
    door.sync_data = lambda descriptor: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error"))
    for name in ("d/2", "d/3"):
        with pytest.raises(StorageError) as caught:
            storage.put(name, b"x")
        assert caught.value.code == "MP308"
    assert open_log(Door(), tmp_path).get("d/1") == b"x"


def test_a_full_disk_leaves_room_for_nothing_half_written(tmp_path):
    class Full(Door):
        room = 200

        def reserve(self, descriptor, offset, size):
            raise OSError(errno.ENOSPC, "No space left on device")

        def write_at(self, descriptor, data, offset):
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken = super().write_at(descriptor, data[: self.room], offset)
            self.room -= taken
            return taken

    door = Full()
    storage = open_log(door, tmp_path)
    storage.put("d/1", b"x" * 50)
    with pytest.raises(StorageError) as caught:
        storage.put("d/2", b"y" * 300)
    assert caught.value.code == "MP307"
    door.room = 10**6
    assert storage.put("d/2", b"y" * 300) is PutOutcome.WON
    assert {name: open_log(Door(), tmp_path).get(name) for name in ("d/1", "d/2")} == {
        "d/1": b"x" * 50,
        "d/2": b"y" * 300,
    }


POINTS = (
    *("checkpoint.created", "epoch.offered", "epoch.computed", "segment.written"),
    *("manifest.staged", "manifest.linked", "manifest.committed", "publish.started", "publish.finished"),
)


def run_batches(folder):
    storage = LogStorage(folder, file_bytes_max=900, index_records_min=3)
    checkpoint = open_ledger(storage)
    for batch in range(max(checkpoint.epoch - 1, 0), len(BATCHES)):
        run_batch(checkpoint, storage, batch, lambda manifest: None)


@pytest.mark.parametrize("occurrence", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_killed_at_a_point_leaves_whole_epochs_and_the_next_one_finishes(
    tmp_path, monkeypatch, point, occurrence
):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    child = os.fork()
    if child == 0:
        os.environ[VARIABLE] = f"{point}:{occurrence}"
        try:
            run_batches(tmp_path / "log")
        except BaseException:  # noqa: BLE001 - a child of a test must never return into pytest
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == (0 if (point, occurrence) == ("checkpoint.created", 3) else -signal.SIGKILL)
    storage = LogStorage(tmp_path / "log")
    assert read_state(storage) == state_after(len(storage.list("manifests")))
    run_batches(tmp_path / "log")
    assert read_state(LogStorage(tmp_path / "log")) == state_after(len(BATCHES))

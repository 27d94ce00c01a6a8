"""The append-only log: what it takes for damage and what for a writer that died, its index, its files, its turns."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import traceback

import pytest

from millpond.clock import ManualClock
from millpond.errors import StorageError
from millpond.storage.backends.log import log
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.log.logrecord import FILE_HEADER_BYTES, MARK_BYTES, RecordKind, encode, mark_of
from millpond.storage.contract import PutOutcome
from millpond.storage.door import Door
from tests.sizes import sized


class QuickDoor(Door):
    """Syncs nothing, for sweeps that look at files and not at the disk."""

    def sync(self, descriptor):
        pass

    def sync_data(self, descriptor):
        pass

    def sync_folder(self, path):
        pass


def content(name, size=100):
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (size // 32 + 1))[:size]


def small(folder, door=None, clock=None, file_bytes_max=1500, index_records_min=10**9):
    options = {"file_bytes_max": file_bytes_max, "index_records_min": index_records_min}
    return LogStorage(folder, door or QuickDoor(), clock or ManualClock(), **options)


def fill(storage, count, start=0):
    names = [f"deltas/{number:04d}" for number in range(start, start + count)]
    for name in names:
        assert storage.put(name, content(name)) is PutOutcome.WON
    return names


def assert_holds(storage, names):
    assert storage.list("deltas") == sorted(names)
    for name in names:
        assert storage.get(name) == content(name)


def logs(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("log-"))


def indexes(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("index-"))


def real_end(path):
    """Where the records end; what follows is room that was made ahead."""
    return len(path.read_bytes().rstrip(b"\0"))


def code_of(call, *args):
    try:
        call(*args)
    except StorageError as error:
        return error.code
    return None


def test_a_torn_last_record_is_cut_off_wherever_it_was_torn(tmp_path):
    storage = small(tmp_path / "log", file_bytes_max=10**6)
    fill(storage, 3)
    before = logs(tmp_path / "log")[0].read_bytes()
    whole_end = real_end(logs(tmp_path / "log")[0])
    storage.put("deltas/torn", content("deltas/torn"))
    path = logs(tmp_path / "log")[0]
    end = real_end(path)
    after = path.read_bytes()[: end - MARK_BYTES]
    storage.close()
    for index in indexes(tmp_path / "log"):
        index.unlink()
    assert len(after) > whole_end + 100
    for cut in range(whole_end, len(after)):
        for tail in (b"", bytes(500)):
            path.write_bytes(after[:cut] + tail)
            reader = small(tmp_path / "log", file_bytes_max=10**6)
            assert reader.list("deltas") == [f"deltas/{number:04d}" for number in range(3)], cut
            assert path.read_bytes()[:whole_end] == before[:whole_end], "a reader changed the log"
    for cut in range(whole_end, len(after), 17):
        path.write_bytes(after[:cut] + bytes(50))
        writer = small(tmp_path / "log", file_bytes_max=10**6)
        writer.put("deltas/9999", content("deltas/9999"))
        assert_holds(small(tmp_path / "log"), ["deltas/0000", "deltas/0001", "deltas/0002", "deltas/9999"])


def test_garbage_after_the_last_record_is_cut_off_before_the_next_put(tmp_path):
    storage = small(tmp_path, file_bytes_max=10**6)
    names = fill(storage, 3)
    path = logs(tmp_path)[0]
    end = real_end(path)
    chance = random.Random(1)
    for garbage in (b"\xa5" * 300, bytes(40) + b"\xa5" * 300, chance.randbytes(5000), b"MPLR" * 50):
        path.write_bytes(path.read_bytes()[:end] + garbage)
        writer = small(tmp_path, file_bytes_max=10**6)
        assert_holds(writer, names)
        names += fill(writer, 1, start=len(names))
        assert_holds(small(tmp_path), names)
        end = real_end(path)


@pytest.mark.parametrize("indexed", [False, True])
def test_every_flipped_bit_of_what_was_acknowledged_is_a_coded_error_or_harmless(tmp_path, indexed):
    storage = small(tmp_path, file_bytes_max=700)
    names = fill(storage, 6)
    if indexed:
        storage.close()
        names += fill(small(tmp_path, file_bytes_max=700), 2, start=6)
    originals = {path: path.read_bytes() for path in logs(tmp_path)}
    assert len(originals) > 1
    codes = set()
    for path, data in originals.items():
        for place in range(indexed, real_end(path), sized(2, 10)):
            harmed = bytearray(data)
            harmed[place] ^= 1 << (place // 2 % 8)
            path.write_bytes(harmed)
            reader = small(tmp_path, QuickDoor())
            for name in names:
                code = code_of(reader.get, name)
                codes.add(code)
                assert code in {None, "MP301", "MP302", "MP334"}, (path, place)
                if code is None:
                    assert reader.get(name) == content(name), (path, place)
        path.write_bytes(data)
    assert {"MP301", "MP334"} <= codes
    assert_holds(small(tmp_path), names)


def test_damage_is_never_cut_off_by_a_writer(tmp_path):
    storage = small(tmp_path, file_bytes_max=10**6)
    fill(storage, 3)
    path = logs(tmp_path)[0]
    data = path.read_bytes()
    end = real_end(path)
    for place in range(FILE_HEADER_BYTES, end - MARK_BYTES, 3):
        harmed = bytearray(data)
        harmed[place] ^= 0x10
        path.write_bytes(harmed)
        code_of(lambda: small(tmp_path).put("deltas/new", b"x"))
        kept = path.read_bytes()[:end]
        assert kept == bytes(harmed[:end]), place


def test_a_log_that_is_shorter_than_its_index_says_is_damaged(tmp_path):
    storage = small(tmp_path, file_bytes_max=10**6)
    fill(storage, 3)
    storage.close()
    path = logs(tmp_path)[0]
    os.truncate(path, real_end(path) - 10)
    assert code_of(lambda: small(tmp_path).list("")) == "MP334"


def test_a_file_that_is_gone_is_missed(tmp_path):
    storage = small(tmp_path)
    fill(storage, 30)
    assert len(logs(tmp_path)) > 3
    logs(tmp_path)[-1].unlink()
    assert code_of(lambda: small(tmp_path).list("")) == "MP304"


def test_a_file_of_another_version_is_refused_and_not_touched(tmp_path):
    import zlib

    storage = small(tmp_path)
    fill(storage, 1)
    path = logs(tmp_path)[0]
    data = path.read_bytes()
    head = data[:4] + b"\0\x02" + data[6:12]
    path.write_bytes(head + zlib.crc32(head).to_bytes(4, "big") + data[16:])
    assert code_of(lambda: small(tmp_path).put("deltas/x", b"x")) == "MP302"


def test_records_of_other_places_are_not_believed(tmp_path):
    """A payload may hold the bytes of records and marks: they say where they belong."""
    storage = small(tmp_path / "one", file_bytes_max=10**6)
    fill(storage, 2)
    inner = logs(tmp_path / "one")[0].read_bytes()
    other = small(tmp_path / "two", file_bytes_max=10**6)
    other.put("deltas/a", inner + mark_of(1, FILE_HEADER_BYTES))
    path = logs(tmp_path / "two")[0]
    torn = path.read_bytes()[: real_end(path) - MARK_BYTES - 20]
    path.write_bytes(torn.replace(mark_of(1, FILE_HEADER_BYTES), bytes(MARK_BYTES)))
    assert small(tmp_path / "two").list("") == []


@pytest.mark.parametrize(("number", "shift"), [(1, 8), (1, -8), (2, 0)])
def test_a_record_that_belongs_to_another_place_is_cut_off(tmp_path, number, shift):
    """As a disk may leave one that wrote to the wrong place: its checksums are right."""
    storage = small(tmp_path, file_bytes_max=10**6)
    names = fill(storage, 2)
    path = logs(tmp_path)[0]
    end = real_end(path)
    stray, _ = encode(RecordKind.PUT, "deltas/stray", b"stray", number, end + shift)
    path.write_bytes(path.read_bytes()[:end] + stray)
    assert_holds(small(tmp_path), names)
    again = small(tmp_path)
    assert again.put("deltas/more", content("deltas/more")) is PutOutcome.WON
    assert_holds(small(tmp_path), [*names, "deltas/more"])


def test_the_log_rotates_and_every_file_is_read_again(tmp_path):
    storage = small(tmp_path)
    names = fill(storage, 60)
    assert len(logs(tmp_path)) > 5
    assert all(path.stat().st_size <= 1700 for path in logs(tmp_path)[:-1])
    assert_holds(storage, names)
    assert_holds(small(tmp_path), names)


def test_a_value_larger_than_a_file_has_one_of_its_own(tmp_path):
    storage = small(tmp_path)
    for name in ("a", "b", "c"):
        storage.put(name, content(name, 5000))
    assert [small(tmp_path).get(name) for name in "abc"] == [content(name, 5000) for name in "abc"]


@pytest.mark.parametrize("left", ["nothing", "half a header", "a header"])
def test_a_rotation_that_died_halfway_is_done_again(tmp_path, left):
    storage = small(tmp_path)
    names = fill(storage, 3)
    whole = small(tmp_path / "other")
    fill(whole, 20)
    header = logs(tmp_path / "other")[1].read_bytes()[:FILE_HEADER_BYTES]
    (tmp_path / "log-0000000002").write_bytes({"nothing": b"", "half a header": header[:7], "a header": header}[left])
    assert_holds(small(tmp_path), names)
    names += fill(small(tmp_path), 20, start=3)
    assert_holds(small(tmp_path), names)
    assert_holds(storage, names)


@pytest.mark.parametrize("size", [0, 5, FILE_HEADER_BYTES])
def test_a_first_file_that_was_never_finished_is_begun_anew(tmp_path, size):
    tmp_path.joinpath("lock").touch()
    (tmp_path / "log-0000000001").write_bytes(b"\xa5" * size)
    storage = small(tmp_path)
    assert storage.list("") == []
    assert_holds(storage, fill(storage, 3))


def test_opening_reads_the_index_and_the_tail_alone(tmp_path):
    class CountingDoor(Door):
        read_bytes = 0

        def read_at(self, descriptor, size, offset):
            data = super().read_at(descriptor, size, offset)
            self.read_bytes += len(data)
            return data

    storage = small(tmp_path, file_bytes_max=500_000)
    names = [f"deltas/{number:04d}" for number in range(205)]
    for number, name in enumerate(names):
        if number == 200:
            storage.write_index()
        storage.put(name, content(name, 20_000))
    doors = CountingDoor(), CountingDoor()
    assert small(tmp_path, doors[0]).list("deltas") == names
    for index in indexes(tmp_path):
        index.unlink()
    assert small(tmp_path, doors[1]).list("deltas") == names
    assert doors[0].read_bytes < doors[1].read_bytes / 3


def test_the_index_is_written_now_and_then_and_old_ones_go(tmp_path):
    storage = small(tmp_path, index_records_min=20)
    names = fill(storage, 100)
    assert len(indexes(tmp_path)) == 1
    assert_holds(small(tmp_path), names)
    storage.close()
    assert len(indexes(tmp_path)) == 1
    assert_holds(small(tmp_path), names)


def test_a_damaged_index_is_not_used(tmp_path):
    storage = small(tmp_path)
    names = fill(storage, 20)
    storage.close()
    (path,) = indexes(tmp_path)
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        harmed = bytearray(data)
        harmed[place] ^= 0x40
        path.write_bytes(harmed)
        assert small(tmp_path).list("deltas") == names
    for cut in range(0, len(data), 13):
        path.write_bytes(data[:cut])
        assert small(tmp_path).list("deltas") == names


def test_an_index_that_can_not_be_written_does_not_fail_the_put(tmp_path):
    class NoRoomForIndexes(Door):
        def create(self, path):
            if path.name.startswith("staged-"):
                raise OSError(28, "No space left on device")
            return super().create(path)

    storage = small(tmp_path, NoRoomForIndexes(), index_records_min=5)
    assert_holds(storage, fill(storage, 20))
    assert indexes(tmp_path) == []


def test_what_processes_that_died_had_staged_is_swept(tmp_path):
    storage = small(tmp_path, clock=ManualClock(10**15))
    fill(storage, 2)
    (tmp_path / "staged-old").write_bytes(b"x")
    storage.write_index()
    assert not (tmp_path / "staged-old").exists()


def test_files_in_which_nothing_lives_are_deleted(tmp_path):
    storage = small(tmp_path)
    names = fill(storage, 60)
    files = len(logs(tmp_path))
    for name in names[:40]:
        storage.delete(name)
    assert len(logs(tmp_path)) < files
    assert_holds(storage, names[40:])
    assert_holds(small(tmp_path), names[40:])


def test_a_deletion_is_remembered_as_long_as_the_deleted_record_is_there(tmp_path):
    """The file with the deletion is empty of names, and still must not go before the file with the record."""
    storage = small(tmp_path)
    fill(storage, 5)
    storage.put("deltas/kept", content("deltas/kept"))
    fill(storage, 20, start=10)
    storage.delete("deltas/0001")
    later = fill(storage, 20, start=40)
    for number in (*range(10, 30), *range(40, 60)):
        storage.delete(f"deltas/{number:04d}")
    for index in indexes(tmp_path):
        index.unlink()
    left = [*(f"deltas/{number:04d}" for number in (0, 2, 3, 4)), "deltas/kept"]
    assert later
    assert_holds(small(tmp_path), left)


def test_a_file_that_holds_nothing_but_a_needed_deletion_stays(tmp_path):
    storage = small(tmp_path)
    kept = fill(storage, 60)
    storage.put("deltas/large", content("deltas/large", 3000))
    storage.delete("deltas/0001")
    with_deletion = logs(tmp_path)[-1]
    gone = fill(storage, 14, start=100)
    assert logs(tmp_path)[-1] != with_deletion, "the deletion is in a file that is full"
    for name in gone:
        storage.delete(name)
    assert with_deletion.exists()
    for index in indexes(tmp_path):
        index.unlink()
    assert not small(tmp_path).contains("deltas/0001")
    assert set(small(tmp_path).list("deltas")) == {*kept, "deltas/large"} - {"deltas/0001"}


def test_compaction_takes_back_room_and_keeps_what_lives(tmp_path):
    storage = small(tmp_path)
    names = fill(storage, 100)
    kept = names[::10]
    for name in names:
        if name not in kept:
            storage.delete(name)
    storage.compact()
    assert sum(path.stat().st_size for path in logs(tmp_path)[:-1]) < 4000
    assert_holds(storage, kept)
    assert_holds(small(tmp_path), kept)
    assert not any(small(tmp_path).contains(name) for name in names if name not in kept)


def test_deleting_compacts_by_itself_when_most_is_dead(tmp_path):
    storage = small(tmp_path)
    kept = []
    for turn in range(60):
        names = fill(storage, 10, start=10 * turn)
        kept.append(names[0])
        for name in names[1:]:
            storage.delete(name)
    size = sum(path.stat().st_size for path in logs(tmp_path)[:-1])
    assert size < 40_000, size
    assert_holds(storage, kept)
    assert_holds(small(tmp_path), kept)


def test_others_find_what_compaction_moved(tmp_path):
    storage, other = small(tmp_path), small(tmp_path)
    names = fill(storage, 60)
    assert_holds(other, names)
    for name in names[1::2]:
        storage.delete(name)
    storage.compact()
    assert_holds(other, names[::2])


def test_a_stale_index_does_not_bring_back_what_was_deleted(tmp_path):
    storage = small(tmp_path)
    names = fill(storage, 60)
    storage.write_index()
    (stale,) = indexes(tmp_path)
    data = stale.read_bytes()
    for name in names[:50]:
        storage.delete(name)
    storage.compact()
    storage.close()
    for index in indexes(tmp_path):
        index.unlink()
    stale.write_bytes(data)
    assert_holds(small(tmp_path), names[50:])


def test_compaction_leaves_a_damaged_file_where_it_is(tmp_path):
    storage = small(tmp_path)
    names = fill(storage, 30)
    first = logs(tmp_path)[0]
    data = bytearray(first.read_bytes())
    place = data.index(content(names[0]))
    data[place] ^= 1
    first.write_bytes(data)
    storage.delete(names[1])
    storage.compact()
    assert first.exists()
    assert code_of(lambda: storage.get(names[0])) == "MP301"
    for name in names[2:]:
        assert storage.get(name) == content(name)


@pytest.mark.parametrize("seed", range(8))
def test_random_work_by_two_openings_equals_a_dict(tmp_path, seed):
    chance = random.Random(seed)
    openings = [small(tmp_path, file_bytes_max=900, index_records_min=7) for _ in range(2)]
    model = {}
    for step in range(400):
        storage = openings[chance.randrange(2)]
        name = f"deltas/{chance.randrange(40):04d}"
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                data = b"%d" % step * chance.randrange(1, 60)
                assert (storage.put(name, data) is PutOutcome.WON) == (name not in model)
                model.setdefault(name, data)
            case 4 | 5 | 6:
                storage.delete(name)
                model.pop(name, None)
            case 7:
                assert storage.contains(name) == (name in model)
                assert code_of(storage.get, name) == (None if name in model else "MP304")
            case 8:
                openings[chance.randrange(2)] = small(tmp_path, file_bytes_max=900, index_records_min=7)
            case 9:
                chance.choice([storage.compact, storage.write_index, storage.close])()
        if step % 20 == 0:
            assert storage.list("") == sorted(model)
    for storage in (*openings, small(tmp_path)):
        assert {name: storage.get(name) for name in storage.list("")} == model


def test_threads_share_syncs_and_lose_nothing(tmp_path):
    class CountingDoor(Door):
        syncs = 0

        def sync_data(self, descriptor):
            self.syncs += 1
            super().sync_data(descriptor)

    door = CountingDoor()
    storage = LogStorage(tmp_path, door)
    errors = []

    def write(writer):
        try:
            for number in range(50):
                name = f"deltas/{writer}-{number}"
                assert storage.put(name, content(name)) is PutOutcome.WON
                assert storage.get(name) == content(name)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert door.syncs < 8 * 50
    assert_holds(LogStorage(tmp_path), [f"deltas/{writer}-{number}" for writer in range(8) for number in range(50)])


def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child of a test must never return into pytest
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    return child


def test_children_and_their_parent_append_to_one_log(tmp_path):
    """Each child inherits an open storage, and must take turns all the same."""
    storage = small(tmp_path)
    storage.put("deltas/first", content("deltas/first"))

    def work(writer):
        for number in range(40):
            name = f"deltas/{writer}-{number}"
            assert storage.put(name, content(name)) is PutOutcome.WON
            storage.put(f"manifests/{number:010d}", b"%d" % writer)

    children = [in_child(lambda writer=writer: work(writer)) for writer in range(3)]
    work(3)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    names = [f"deltas/{writer}-{number}" for writer in range(4) for number in range(40)]
    assert_holds(storage, [*names, "deltas/first"])
    assert_holds(small(tmp_path), [*names, "deltas/first"])
    assert len(storage.list("manifests")) == 40


def test_a_lock_that_is_never_let_go_is_a_coded_error(tmp_path):
    storage = small(tmp_path)
    fill(storage, 1)
    held = Door().lock(tmp_path / log.LOCK, shared=False)
    try:
        assert code_of(lambda: storage.put("deltas/x", b"x")) == "MP335"
    finally:
        Door().unlock(held)
    assert storage.put("deltas/x", b"x") is PutOutcome.WON


def test_reading_makes_nothing_and_a_folder_without_a_log_is_empty(tmp_path):
    storage = small(tmp_path / "nowhere")
    assert storage.list("") == []
    assert not storage.contains("a")
    storage.delete("a")
    storage.compact()
    storage.close()
    assert not (tmp_path / "nowhere").exists()


def test_a_log_that_was_copied_without_its_lock_is_there(tmp_path):
    storage = LogStorage(tmp_path / "log")
    storage.put("genesis", b"x")
    storage.close()
    (tmp_path / "log" / "lock").unlink()
    copied = LogStorage(tmp_path / "log")
    assert copied.list("") == ["genesis"]
    (tmp_path / "log" / "lock").unlink()
    assert LogStorage(tmp_path / "log").contains("genesis")
    (tmp_path / "log" / "lock").unlink()
    assert LogStorage(tmp_path / "log").put("genesis", b"y") is PutOutcome.PRESENT


def test_files_are_for_their_owner_alone(tmp_path):
    storage = small(tmp_path / "log")
    fill(storage, 20)
    storage.close()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "log").iterdir()} == {0o600}
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_a_log_file_is_refused(tmp_path):
    storage = small(tmp_path / "log")
    fill(storage, 1)
    path = logs(tmp_path / "log")[0]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: small(tmp_path / "log").list("")) == "MP306"

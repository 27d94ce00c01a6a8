"""A local store that was cut off or changed kills nobody and answers nothing wrong: it is set aside and rebuilt."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.errors import StateError
from millpond.state.changes import Changes
from millpond.state.local import storeuse
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storecheck import damage_in, is_whole, summed, summed_all, values_of
from millpond.state.local.storeversion import Stamp
from tests.children import in_child

STAMP = Stamp("u", 1, "h1")


def entries(seed, count):
    chance = random.Random(seed)
    found = {}
    for _ in range(count):
        long = chance.random() < 0.01
        key = bytes([0]) + chance.randrange(16).to_bytes(2, "big") + chance.randbytes(600 if long else 6)
        found[key] = chance.randbytes(9000 if chance.random() < 0.01 else chance.randrange(30))
    return found


def filled(path, seed=1, count=3000):
    """A store with some history, so that there are free pages too."""
    store = LocalStore(path)
    held = entries(seed, count)
    for part in range(1, 3):
        keys = sorted(held)[: count * part // 20]
        store.rebuild(STAMP, [Changes(keys, [held[key] for key in keys])])
    store.rebuild(STAMP, [Changes.of(held)])
    store.close()
    return held


def read(path):
    """What a store holds, None if it must be rebuilt: read in a child, which a bad page might kill."""
    store = LocalStore(path)
    with store.view() as view:
        if view.stamp != STAMP:
            return None
        found = dict(view.scan(b"\0"))
        keys = sorted(found)
        assert view.get_many(keys) == [found[key] for key in keys]
    store.close()
    return found


@pytest.mark.parametrize("kind", ["flipped bit", "garbage", "zeroed page", "swapped pages"])
def test_no_change_of_the_file_of_a_store_becomes_a_crash_or_a_wrong_answer(tmp_path, kind):
    held = filled(tmp_path / "store")
    data = (tmp_path / "store" / "data.mdb").read_bytes()
    pages = len(data) // 4096

    def tried():
        logging.disable(logging.CRITICAL)
        seen = [0, 0]
        for seed in range(120):
            chance = random.Random(seed)
            changed = bytearray(data)
            place = chance.randrange(len(data)) if seed % 3 else chance.randrange(min(len(data), 3 * 4096))
            page, other = chance.randrange(pages), chance.randrange(pages)
            if kind == "flipped bit":
                changed[place] ^= 1 << chance.randrange(8)
            elif kind == "garbage":
                changed[place : place + 64] = chance.randbytes(64)[: len(data) - place]
            elif kind == "zeroed page":
                changed[page * 4096 : (page + 1) * 4096] = bytes(4096)
            else:
                left, right = (slice(n * 4096, (n + 1) * 4096) for n in (page, other))
                changed[left], changed[right] = changed[right], changed[left]
            (tmp_path / "store" / "data.mdb").write_bytes(bytes(changed))
            found = read(tmp_path / "store")
            seen[found is None] += 1
            assert found in (None, held), seed
            shutil.rmtree(tmp_path / "store")
            (tmp_path / "store").mkdir()
        assert seen[1] > 40

    assert in_child(tried) == 0


def test_a_store_that_was_cut_off_anywhere_is_rebuilt_and_nobody_dies(tmp_path, caplog):
    filled(tmp_path / "store", count=800)
    data = (tmp_path / "store" / "data.mdb").read_bytes()
    chance = random.Random(7)
    for size in [1, 100, 4096, 4097, 8192, len(data) - 1, *(chance.randrange(1, len(data)) for _ in range(40))]:
        (tmp_path / "store" / "data.mdb").write_bytes(data[:size])
        assert read(tmp_path / "store") is None, size
        shutil.rmtree(tmp_path / "store")
        (tmp_path / "store").mkdir()
    assert str(tmp_path / "store") in caplog.text


def test_a_store_that_is_cut_off_while_a_process_has_it_open_is_opened_anew(tmp_path):
    filled(tmp_path / "store", count=800)

    def work():
        store = LocalStore.at(tmp_path / "store")
        with (tmp_path / "store" / "data.mdb").open("r+b") as file:
            file.truncate(8192)
        again = LocalStore.at(tmp_path / "store")
        assert again is not store
        with again.view() as view:
            assert view.stamp is None

    assert in_child(work) == 0


def in_place_of(path, kind):
    """Put something in the place of a file that is none."""
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
        (path / "inside").write_text("x")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.parent.parent / "outside" if kind == "link" else path.name)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "loop"])
@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb", "users", "damaged", "aside"])
def test_a_store_with_something_that_is_no_file_is_set_aside_and_nobody_waits_for_it(tmp_path, name, kind, is_open):
    filled(tmp_path / "store", count=50)
    (tmp_path / "outside").write_text("dear")
    if name == "aside":
        in_place_of(tmp_path / "store.damaged", kind)
        (tmp_path / "store" / "damaged").write_text("for a reason")

    def work():
        signal.alarm(60)
        before = LocalStore.at(tmp_path / "store") if is_open and name != "aside" else None
        if name != "aside":
            in_place_of(tmp_path / "store" / name, kind)
        store = LocalStore.at(tmp_path / "store")
        with store.view() as view:
            # Of a store that is open, LMDB goes on with the lock file that it has.
            assert view.stamp is None or (store is before and name == "lock.mdb")

    assert in_child(work) == 0
    assert (tmp_path / "outside").read_text() == "dear"


def test_a_lock_file_that_is_cut_off_while_a_process_has_the_store_open_kills_nobody(tmp_path):
    held = filled(tmp_path / "store", count=800)

    def work():
        signal.alarm(60)
        store = LocalStore.at(tmp_path / "store")
        for size in (0, 5000):
            with (tmp_path / "store" / "lock.mdb").open("r+b") as file:
                file.truncate(size)
            again = LocalStore.at(tmp_path / "store")
            assert again is not store
            store = again
            ordered = sorted(held)
            store.rebuild(STAMP, [Changes.of(held)])
            with store.view() as view:
                assert view.get_many(ordered) == [held[key] for key in ordered]

    assert in_child(work) == 0


def test_entries_are_checked_together_and_the_one_that_is_damaged_is_found(tmp_path):
    held = {key: value for key, value in entries(3, 9000).items() if len(key) < 20}
    pairs = list(summed_all(sorted(held), [held[key] for key in sorted(held)]))
    assert values_of(pairs) == [held[key] for key, _ in pairs]
    assert all(stored == summed(key, held[key]) and is_whole(key, stored) for key, stored in pairs)
    chance = random.Random(4)
    for _ in range(200):
        place = chance.randrange(len(pairs))
        key, stored = pairs[place]
        bad = bytearray(stored)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        assert values_of([*pairs[:place], (key, bytes(bad)), *pairs[place + 1 :]]) is None
        assert values_of([*pairs[:place], (key[:-1] + bytes([key[-1] ^ 1]), stored)]) is None


def test_a_store_that_is_changed_while_processes_have_it_open_is_looked_through_when_it_is_opened_next(tmp_path):
    held = filled(tmp_path / "store")

    def work():
        logging.disable(logging.CRITICAL)
        data = (tmp_path / "store" / "data.mdb").read_bytes()
        changed = 0
        for seed in range(60):
            chance = random.Random(seed)
            store = LocalStore.at(tmp_path / "store")
            place = chance.randrange(len(data))
            with (tmp_path / "store" / "data.mdb").open("r+b") as file:
                file.seek(place)
                file.write(bytes([data[place] ^ 1 << chance.randrange(8)]))
            again = LocalStore.at(tmp_path / "store")
            changed += again is not store
            with again.view() as view:
                if again is store:
                    assert dict(view.scan(b"\0")) == held, seed
                else:
                    assert view.stamp is None
            again.close()
            (tmp_path / "store" / "data.mdb").write_bytes(data)
        assert changed > 20

    assert in_child(work) == 0


def test_workers_that_are_killed_cost_no_rebuild_and_a_store_in_use_is_not_looked_through_again(tmp_path, monkeypatch):
    held = filled(tmp_path / "store", count=200)
    told, tell = os.pipe()
    worker = os.fork()
    if worker == 0:
        view = LocalStore(tmp_path / "store").view()
        os.write(tell, b"open")
        signal.pause()
        os._exit(view.entries)
    assert os.read(told, 4) == b"open"
    with monkeypatch.context() as patch:
        patch.setattr(storeuse, "damage_in", lambda _: pytest.fail("looked through while in use"))
        assert read(tmp_path / "store") == held
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.close(told)
    os.close(tell)
    assert read(tmp_path / "store") == held
    assert damage_in(tmp_path / "store") is None


def test_a_store_that_was_changed_while_another_process_has_it_open_is_looked_through_by_the_next_one(tmp_path):
    held = filled(tmp_path / "store", count=400)
    told, tell = os.pipe()
    worker = os.fork()
    if worker == 0:
        view = LocalStore(tmp_path / "store").view()
        os.write(tell, b"open")
        signal.pause()
        os._exit(view.entries)
    assert os.read(told, 4) == b"open"
    data = bytearray((tmp_path / "store" / "data.mdb").read_bytes())
    for place in range(0, len(data), 611):
        data[place] ^= 4
    (tmp_path / "store" / "data.mdb").write_bytes(bytes(data))
    assert held
    assert read(tmp_path / "store") is None
    assert (tmp_path / "store.damaged").exists()
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.close(told)
    os.close(tell)


def test_an_entry_that_is_damaged_while_the_store_is_in_use_is_told_and_the_next_open_begins_anew(tmp_path):
    held = filled(tmp_path / "store", count=50)
    store = LocalStore.at(tmp_path / "store")
    key = next(key for key in sorted(held) if len(key) < 20)
    with store._env.begin(write=True) as txn:
        raw = bytearray(txn.get(key, db=store._main))
        raw[0] ^= 1
        txn.put(key, bytes(raw), db=store._main)
    with store.view() as view:
        for ask in (lambda: view.get(key), lambda: view.get_many([key]), lambda: list(view.scan(b"\0"))):
            with pytest.raises(StateError, match="MP225"):
                ask()
        with pytest.raises(StateError, match="MP225"):
            view.check()
    again = LocalStore.at(tmp_path / "store")
    assert again is not store
    with again.view() as view:
        assert view.stamp is None
    again.close()


class Sums(Program):
    totals = Partitioned(Map[int, int])

    @entry
    def add(self, key: int, amount: int) -> int:
        self.totals[key] = self.totals.get(key, 0) + amount
        return self.totals[key]


@pytest.mark.parametrize("seed", range(20))
def test_a_run_over_damaged_stores_answers_as_plain_python_does(tmp_path, seed):
    chance = random.Random(seed)
    rows = [[(chance.randrange(300), chance.randrange(9)) for _ in range(200)] for _ in range(4)]
    plain, expected = {}, []
    for row in [row for batch in rows for row in batch]:
        plain[row[0]] = plain.get(row[0], 0) + row[1]
        expected.append(plain[row[0]])
    run = Simulated(compile_program(Sums), tmp_path, partitions=2)
    for batch in rows:
        run.epoch([("add", row) for row in batch])
        LocalStore.close_below(tmp_path)
        store = chance.choice(sorted(tmp_path.rglob("data.mdb")))
        data = bytearray(store.read_bytes())
        if seed % 4:
            for _ in range(3):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            del data[chance.randrange(len(data)) :]
        store.write_bytes(bytes(data))
    replies = run.replies()
    assert [replies[number] for number in range(len(expected))] == expected


def test_an_epoch_that_meets_a_damaged_entry_is_tried_again_on_a_new_store(tmp_path, monkeypatch):
    run = Simulated(compile_program(Sums), tmp_path, partitions=1)
    run.epoch([("add", (key, key)) for key in range(20)])
    run.epoch([("add", (0, 0))])
    monkeypatch.setattr(storeuse.StoreUse, "was_touched", lambda _: False)
    (path,) = [path.parent for path in tmp_path.rglob("data.mdb")]
    store = LocalStore.at(path)
    with store._env.begin(write=True) as txn:
        for key, raw in list(txn.cursor(db=store._main)):
            txn.put(bytes(key), bytes([raw[0] ^ 1]) + bytes(raw[1:]), db=store._main)
    run.epoch([("add", (key, 1)) for key in range(20)])
    replies = run.replies()
    assert [replies[21 + key] for key in range(20)] == [key + 1 for key in range(20)]
    assert path.with_name(path.name + ".damaged").exists()

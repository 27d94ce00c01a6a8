"""A follower answers from one committed epoch at a time, whatever becomes of the checkpoint meanwhile."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import millpond
from millpond import Map, Partitioned, Program, entry, follow
from millpond.checkpoint.forking import fork
from millpond.checkpoint.repairing import repair
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, MillpondError, NoCheckpointError, ServeError
from millpond.serve.follower import Follower
from millpond.storage.backends.files import FileStorage
from tests.chance import seed_of
from tests.programs.served import Colour, Shop
from tests.sizes import compile_once

KINDS = ("pay", "buy", "see", "note", "close")


def some_rows(rng, count=12):
    return [(rng.choice(KINDS), (rng.choice("abc"), rng.randrange(4), rng.randrange(100))) for _ in range(count)]


def played(rows):
    plain = Shop()
    for name, arguments in rows:
        getattr(plain, name)(*arguments)
    return plain


def check_answers(state, plain):
    for name in "abcd":
        assert state.ask("balance", name) == plain.balance(name)
        assert state.ask("carts", name, 2) == plain.carts(name, 2)
        assert state.ask("carts", name=name) == plain.carts(name)
        assert state.ask("known", name) == plain.known(name)
        assert state.ask("last", name) == plain.last(name)
        assert state["accounts"].get(name) == plain.balance(name)
    assert state.ask("richest") == plain.richest()
    assert [state.ask("near", item) for item in range(4)] == [plain.near(item) for item in range(4)]
    assert state.ask("paint", Colour.RED) == plain.paint(Colour.RED)
    assert dict(state["visits"].items()) == dict(plain.visits.items())
    assert state["total"].get(default=0) == plain.total.get(0)


@pytest.mark.parametrize("number", range(3))
def test_every_answer_is_that_of_the_plain_class_at_that_epoch(job, checkpoint, tmp_path, number):
    rng, fed = random.Random(seed_of(f"follower {number}")), []
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        for epoch in range(1, 8):
            fed += (rows := some_rows(rng))
            job.epoch(rows)
            with follower.read(min_epoch=epoch) as state:
                assert state.epoch == epoch
                check_answers(state, played(fed))


def test_a_follower_of_an_empty_checkpoint_answers_with_nothing(job, checkpoint, tmp_path):
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower, follower.read() as state:
        assert state.epoch == 0
        assert state.ask("balance", "a") is None
        assert dict(state["accounts"].items()) == {}


def test_there_must_be_a_checkpoint(tmp_path):
    with pytest.raises(NoCheckpointError, match="MP350"):
        follow(tmp_path / "nowhere", Shop)


def test_a_read_stays_at_its_epoch_while_others_are_committed(job, checkpoint, tmp_path):
    job.epoch([("pay", ("a", 1, 5))])
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        with follower.read() as state:
            for number in range(2, 6):
                job.epoch([("pay", ("a", 1, 5))])
                follower.wait(min_epoch=number)
                assert (state.epoch, state.ask("balance", "a").balance) == (1, 5)
                assert state["accounts"].get("a").balance == 5
        with follower.read() as state:
            assert (state.epoch, state.ask("balance", "a").balance) == (5, 25)


def test_an_older_epoch_is_read_by_its_number(job, checkpoint, tmp_path):
    for _ in range(3):
        job.epoch([("pay", ("a", 1, 5))])
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        with follower.read(at=2) as state:
            assert (state.epoch, state["accounts"].get("a").balance) == (2, 10)
        with pytest.raises(EpochError, match="MP450"), follower.read(at=9):
            pass


def test_a_wish_that_does_not_come_true_is_refused_in_time(job, checkpoint, tmp_path):
    job.epoch([("pay", ("a", 1, 5))])
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        with pytest.raises(ServeError, match="MP886"), follower.read(min_epoch=2, within="10 ms"):
            pass
        with follower.read(min_epoch=1, max_age="10 s") as state:
            assert state.epoch == 1
        for wish in ({"min_epoch": -1}, {"min_epoch": "x"}, {"min_epoch": True}, {"max_age": 3}, {"within": "soon"}):
            with pytest.raises(ServeError, match="MP884"), follower.read(**wish):
                pass


def test_max_age_asks_for_a_look_now(job, checkpoint, tmp_path):
    with Follower(str(checkpoint), Shop, folder=tmp_path / "copy", poll_s=3600) as follower:
        job.epoch([("pay", ("a", 1, 5))])
        with follower.read(max_age="1 h") as state:
            assert state.epoch == 0
        with follower.read(max_age="0 s") as state:
            assert state.epoch == 1


def test_sessions_are_monotone_and_notice_that_a_checkpoint_was_taken_back(job, checkpoint, tmp_path):
    for _ in range(3):
        job.epoch([("pay", ("a", 1, 5))])
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        session = follower.session
        with follower.read(min_epoch=session) as state:
            assert state.epoch == 3
        repair(FileStorage(checkpoint), 1)
        again = Simulated(compile_once(Shop), tmp_path, partitions=2, adopt=True)
        for _ in range(3):
            again.epoch([("pay", ("a", 1, 100))])
        follower.refresh()
        with follower.read(min_epoch=4) as state:
            assert state.ask("balance", "a").balance == 305
        with pytest.raises(ServeError, match="MP887"), follower.read(min_epoch=session):
            pass


def test_a_restart_goes_on_where_the_copy_was(job, checkpoint, tmp_path):
    rng = random.Random(seed_of("restart"))
    fed = some_rows(rng)
    job.epoch(fed)
    with follow(checkpoint, Shop, folder=tmp_path / "copy"):
        pass
    fed += (rows := some_rows(rng))
    job.epoch(rows)
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower, follower.read() as state:
        assert state.epoch == 2
        check_answers(state, played(fed))


def test_each_follower_has_a_folder_of_its_own(job, checkpoint, tmp_path):
    with follow(checkpoint, Shop, folder=tmp_path / "copy"):
        with pytest.raises(ServeError, match="MP885"):
            follow(checkpoint, Shop, folder=tmp_path / "copy")
        with follow(checkpoint, Shop) as one, follow(checkpoint, Shop) as another:
            assert one.epoch == another.epoch == 0


def test_another_checkpoint_in_its_place_is_never_mixed_in(job, checkpoint, tmp_path):
    job.epoch([("pay", ("a", 1, 5))])
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        shutil.rmtree(checkpoint)
        another = Simulated(compile_once(Shop), tmp_path, partitions=2)
        another.epoch([("pay", ("a", 1, 7))])
        another.epoch([("pay", ("a", 1, 7))])
        with pytest.raises(ServeError, match="MP889"):
            follower.refresh()
        with follower.read() as state:
            assert (state.epoch, state.ask("balance", "a").balance) == (1, 5)


def test_a_fork_is_followed_like_any_other(job, checkpoint, tmp_path):
    job.epoch([("pay", ("a", 1, 5))])
    fork(checkpoint, tmp_path / "fork" / "checkpoint")
    with follow(tmp_path / "fork" / "checkpoint", Shop, folder=tmp_path / "copy") as follower:
        branch = Simulated(compile_once(Shop), tmp_path / "fork", partitions=3, adopt=True)
        branch.epoch([("pay", ("a", 1, 1))])
        job.epoch([("pay", ("a", 1, 100))])
        with follower.read(min_epoch=2) as state:
            assert state.ask("balance", "a").balance == 6


def test_a_rescaled_checkpoint_is_followed(tmp_path, checkpoint):
    rng, fed = random.Random(seed_of("rescaled")), []
    follower = None
    for partitions, instances in ((2, 8), (5, 3), (1, 4)):
        job = Simulated(compile_once(Shop), tmp_path, partitions=partitions, instances=instances)
        follower = follower or follow(checkpoint, Shop, folder=tmp_path / "copy")
        fed += (rows := some_rows(rng))
        job.epoch(rows)
        follower.refresh()
        with follower.read() as state:
            plain = played(fed)
            assert {name: state["accounts"].get(name) for name in "abc"} == {n: plain.balance(n) for n in "abc"}
            assert dict(state["visits"].items()) == dict(plain.visits.items())
    follower.close()


def test_a_damaged_copy_is_rebuilt(job, checkpoint, tmp_path):
    fed = [("pay", ("a", 1, 5)), ("pay", ("b", 1, 7))]
    job.epoch(fed)
    with follow(checkpoint, Shop, folder=tmp_path / "copy"):
        pass
    (data,) = Path(tmp_path / "copy").rglob("data.mdb")
    data.write_bytes(data.read_bytes()[:5000])
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower, follower.read() as state:
        check_answers(state, played(fed))


def test_a_closed_follower_says_so(job, checkpoint, tmp_path):
    follower = follow(checkpoint, Shop, folder=tmp_path / "copy")
    follower.close()
    follower.close()
    with pytest.raises(ServeError, match="MP888"), follower.read():
        pass


def test_a_fault_of_its_own_is_told_and_does_not_end_the_following(job, checkpoint, tmp_path, monkeypatch):
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        moved, told = follower._move, threading.Event()

        def fail():
            told.set()
            raise RuntimeError("out of luck")

        monkeypatch.setattr(follower, "_move", fail)
        job.epoch([("pay", ("a", 1, 5))])
        assert told.wait(600)
        while follower.problem is None:
            follower._clock.sleep(0.01)
        assert follower.problem.code == "MP890"
        monkeypatch.setattr(follower, "_move", moved)
        follower.wait(min_epoch=1, within="600 s")
        assert follower.problem is None


class Pairs(Program):
    left = Partitioned(Map[int, int])
    right = Partitioned(Map[int, int])

    @entry
    def put(self, key: int, value: int) -> None:
        self.left[key] = value
        self.right[key] = -value

    @entry
    def both(self, key: int) -> int:
        return self.left.get(key, 0) + self.right.get(key, 0)


def test_readers_beside_a_writer_see_no_epoch_by_halves(tmp_path):
    job = Simulated(compile_once(Pairs), tmp_path, partitions=2)
    job.epoch([("put", (key, 0)) for key in range(20)])
    torn, failed, done = [], [], threading.Event()
    with follow(tmp_path / "checkpoint", Pairs, folder=tmp_path / "copy") as follower:

        def read():
            try:
                while not done.is_set():
                    with follower.read() as state:
                        values = {state["left"].get(key) for key in range(20)}
                        values |= {-state["right"].get(key) for key in range(20)}
                        if len(values) > 1 or any(state.ask("both", key) for key in (1, 7)):
                            torn.append((state.epoch, values))
            except MillpondError as error:
                failed.append(error)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for value in range(1, 25):
            job.epoch([("put", (key, value)) for key in range(20)])
        done.set()
        for reader in readers:
            reader.join()
    assert (torn, failed) == ([], [])


def test_following_needs_no_spark():
    code = "import sys, millpond; millpond.follow; print(sorted(m for m in sys.modules if m.startswith('pyspark')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert millpond.follow is follow

"""Stores that several transactions bring further: nobody reads what lies between two epochs, whoever dies meanwhile."""

from __future__ import annotations

import contextlib
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.local_state.openstate import catch_up, open_state, store_path
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.local import localstore
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storeversion import Stamp, StoreVersion
from tests.unit.engine.local_state.test_openstate import GROUPS, Job, key_of

WORDS = [f"{letter}{number}" for letter in "abcdefgh" for number in range(3)]
ONE, TWO = (Layout(GROUPS, partitions, 4, aligned=False) for partitions in (1, 2))
EPOCHS = 5


class DiedError(Exception):
    """The end of a process."""


class Between:
    """Does something before the next write of a store, once; and dies at a later one, if told so."""

    def __init__(self, patch, *, skip=0, deed=None, dies_at=None):
        self.skip, self.deed, self.dies_at = skip, deed, dies_at
        self.writes = 0
        write = LocalStore._write

        def watched(store, change):
            self.writes += 1
            if self.dies_at is not None and self.writes >= self.dies_at:
                raise DiedError
            if self.deed is not None and self.writes > self.skip:
                deed, self.deed = self.deed, None
                deed()
            return write(store, change)

        patch.setattr(LocalStore, "_write", watched)


class History:
    """Some epochs of a job, the parent and the state after each; stores are elsewhere and stand at none."""

    def __init__(self, folder, words_by_epoch):
        self.folder = folder
        job = self.job = Job(folder + "/checkpoint", folder + "/own", ONE)
        self.parents, self.states = [job.checkpoint.parent], [job.opened()]
        for words in words_by_epoch:
            job.run(words)
            self.parents.append(job.checkpoint.parent)
            self.states.append(job.opened())

    def opened(self, epoch, layout=ONE):
        """What stores give of an epoch, all partitions together."""
        state = {}
        for partition in range(layout.partitions):
            local = self.folder + "/local"
            with open_state(self.job.storage, local, self.parents[epoch], layout, partition) as view:
                assert view.store_version.moving is None
                state |= dict(view.scan(b""))
        return state

    def check(self, epoch, layout=ONE):
        assert self.opened(epoch, layout) == self.states[epoch]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(localstore, "PIECE_ENTRIES", 3)


words = st.lists(st.sampled_from(WORDS), min_size=8, max_size=24)
visits = st.lists(
    st.tuples(
        st.integers(0, EPOCHS),
        st.sampled_from([ONE, TWO]),
        st.none() | st.tuples(st.integers(0, 6), st.integers(0, EPOCHS), st.sampled_from([ONE, TWO]), st.booleans()),
        st.none() | st.integers(1, 8),
    ),
    min_size=1,
    max_size=6,
)


@given(st.lists(words, min_size=EPOCHS, max_size=EPOCHS), visits)
def test_whoever_opens_a_store_sees_its_epoch_and_nothing_else(words_by_epoch, visits):
    with TemporaryDirectory() as folder:
        history = History(folder, words_by_epoch)
        for epoch, layout, other, dies_at in visits:
            skip, meanwhile, their_layout, dies = other or (0, None, ONE, False)

            def deed(meanwhile=meanwhile, layout=their_layout, dies=dies):
                """Another process comes by, while this one is between two transactions, and may die half-way."""
                with pytest.MonkeyPatch.context() as inner:
                    Between(inner, dies_at=3 if dies else None)
                    with contextlib.suppress(DiedError):
                        history.check(meanwhile, layout)

            with pytest.MonkeyPatch.context() as patch:
                Between(patch, skip=skip, deed=None if meanwhile is None else deed, dies_at=dies_at)
                with contextlib.suppress(DiedError):
                    history.check(epoch, layout)
        history.check(EPOCHS)
        LocalStore.close_below(store_path(folder + "/local", history.parents[0].uuid, 0).parent)


@pytest.fixture
def history(tmp_path):
    return History(str(tmp_path), [WORDS, WORDS[::2], [*WORDS, *WORDS[::3]]])


def stand(history):
    path = store_path(history.folder + "/local", history.parents[0].uuid, 0)
    with LocalStore.at(path).view() as view:
        return view.store_version


def left_moving(history, monkeypatch, to=1):
    """A store that was left on its way to an epoch."""
    history.check(0)
    with monkeypatch.context() as patch:
        Between(patch, dies_at=3)
        with pytest.raises(DiedError):
            history.opened(to)
    store_version = stand(history)
    assert store_version.stamp is None
    assert store_version.moving is not None
    return store_version


@pytest.mark.parametrize("onwards", [1, 2, 3])
def test_a_store_that_was_left_on_its_way_goes_on_by_deltas(history, monkeypatch, onwards):
    left_moving(history, monkeypatch)
    monkeypatch.setattr(LocalStore, "rebuild", lambda *_: pytest.fail("it was built anew"))
    history.check(onwards)


def test_so_it_does_behind_a_commit_and_for_other_key_groups(history, monkeypatch):
    left_moving(history, monkeypatch)
    assert catch_up(history.job.storage, history.folder + "/local", history.parents[2], ONE, 0)
    assert stand(history).stamp.epoch == 2
    history.check(2)
    left_moving(history, monkeypatch, 3)
    history.check(3, TWO)


def test_one_that_was_on_its_way_to_a_later_epoch_is_built_anew(history, monkeypatch):
    left_moving(history, monkeypatch, 3)
    history.check(2)
    left_moving(history, monkeypatch, 1)
    history.check(0)


def test_one_on_its_way_in_another_timeline_is_built_anew(history, monkeypatch):
    store_version = left_moving(history, monkeypatch)
    store = LocalStore.at(store_path(history.folder + "/local", history.parents[0].uuid, 0))
    foreign = Stamp(store_version.moving[1].uuid, 1, "f" * 64)
    keys = sorted(key_of(f"foreign{number}") for number in range(8))
    deltas = [Changes(keys, [b"no delta of ours writes this"] * len(keys))]
    with monkeypatch.context() as patch:
        Between(patch, dies_at=2)
        with pytest.raises(DiedError):
            store.advance(store_version, foreign, deltas)
    assert stand(history).moving == (store_version.moving[0], foreign)
    history.check(2)


def test_what_is_small_takes_one_transaction_and_what_is_large_takes_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(localstore, "PIECE_BYTES", 100)
    store = LocalStore(tmp_path / "store")
    stamps = [Stamp("u", number, "h") for number in range(4)]
    store.rebuild(stamps[0], ())
    keys = sorted(map(key_of, WORDS))
    for number, (count, size, writes) in enumerate(((3, 33, 1), (7, 1, 3), (3, 60, 2))):
        with monkeypatch.context() as patch:
            watched = Between(patch)
            assert store.advance(
                StoreVersion(stamps[number]), stamps[number + 1], [Changes(keys[:count], [bytes(size)] * count)]
            )
        assert watched.writes == writes
    store.close()

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.errors import StateError
from millpond.state.changes import Changes
from millpond.state.local import localstore
from millpond.state.local.localstore import KEY_BYTES_MAX, LocalStore
from millpond.state.local.storekey import group_of, store_key, store_prefix
from millpond.state.local.storeversion import Stamp, StoreVersion, groups_in, ranges_of
from tests.children import in_child
from tests.sizes import some_of

START = Stamp("u", 0, "h0")
NEXT = Stamp("u", 1, "h1")
A, B, C = (store_key(0, group, b"k") for group in (1, 2, 300))
LONG = store_key(0, 2, b"x" * 600)
LONGER = store_key(0, 2, b"x" * 601)


@pytest.fixture
def store(tmp_path):
    opened = LocalStore(tmp_path / "store")
    yield opened
    opened.close()


def content(store):
    with store.view() as view:
        return dict(view.scan(b""))


def stamp_of(store):
    with store.view() as view:
        return view.stamp


def loaded(entries):
    keys = sorted(entries)
    return Changes(keys, [entries[key] for key in keys])


def test_a_new_store_is_empty_and_stands_nowhere(store):
    assert stamp_of(store) is None
    assert content(store) == {}


def test_a_rebuilt_store_holds_its_files_in_their_order(store):
    store.rebuild(START, [loaded({A: b"1", B: b"2"}), loaded({A: b"3", B: None})])
    assert content(store) == {A: b"3"}
    assert stamp_of(store) == START


def test_rebuilding_forgets_what_was_there(store):
    store.rebuild(START, [loaded({A: b"1", LONG: b"long"})])
    store.rebuild(NEXT, [loaded({B: b"2"})])
    assert content(store) == {B: b"2"}


def test_advancing_applies_deltas_and_moves_the_stamp(store):
    store.rebuild(START, [loaded({A: b"1", B: b"2"})])
    assert store.advance(StoreVersion(START), NEXT, [loaded({A: None, C: b"3"}), loaded({C: b"4"})])
    assert content(store) == {B: b"2", C: b"4"}
    assert stamp_of(store) == NEXT


@pytest.mark.parametrize("wrong", [Stamp("u", 0, "other"), Stamp("v", 0, "h0"), Stamp("u", 1, "h0")])
def test_a_store_that_stands_elsewhere_is_not_advanced(store, wrong):
    store.rebuild(START, [loaded({A: b"1"})])
    assert not store.advance(StoreVersion(wrong), NEXT, [loaded({A: b"2"})])
    assert content(store) == {A: b"1"}
    assert stamp_of(store) == START


def test_a_store_that_was_never_built_is_not_advanced(store):
    assert not store.advance(StoreVersion(START), NEXT, [loaded({A: b"2"})])
    assert content(store) == {}


def test_a_view_stays_as_it_was_while_the_store_moves_on(store):
    store.rebuild(START, [loaded({A: b"1"})])
    with store.view() as view:
        store.advance(StoreVersion(START), NEXT, [loaded({A: b"2", B: b"3"})])
        assert view.stamp == START
        assert view.get_many([A, B]) == [b"1", None]
        assert (view.get(A), view.get(B)) == (b"1", None)
        assert view.entries == 1
    assert content(store) == {A: b"2", B: b"3"}


def test_a_failure_in_the_middle_changes_nothing(store):
    store.rebuild(START, [loaded({A: b"1"})])
    with pytest.raises(TypeError):
        store.advance(StoreVersion(START), NEXT, [loaded({A: b"2"}), Changes([B], [7])])
    assert content(store) == {A: b"1"}
    assert stamp_of(store) == START


@settings(max_examples=some_of(30))
@given(
    st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 2), st.integers(0, 300), st.sampled_from([0, 1, 507, 508, 509, 600])),
            st.binary(max_size=4) | st.none(),
        ),
        max_size=4,
    )
)
def test_a_store_holds_what_a_dict_would(tmp_path_factory, files):
    store = LocalStore(tmp_path_factory.mktemp("local") / "store")
    named = [{store_key(e, g, b"u" * size): value for (e, g, size), value in file.items()} for file in files]
    store.rebuild(START, map(loaded, named))
    model = {}
    for file in named:
        model.update(file)
    model = {key: value for key, value in model.items() if value is not None}
    everything = [key for file in named for key in file] + [A, LONG]
    with store.view() as view:
        assert list(view.scan(b"")) == sorted(model.items())
        assert view.get_many(everything) == [model.get(key) for key in everything]
        assert view.entries == len(model)
        for element in range(3):
            for group in {key[2] | key[1] << 8 for key in model}:
                prefix = store_prefix(element, group)
                own = [(key, value) for key, value in sorted(model.items()) if key.startswith(prefix)]
                assert list(view.scan(prefix)) == own
    store.close()


def test_keys_above_the_limit_of_the_store_are_entries_like_others(store):
    edge = store_key(0, 2, b"e" * (KEY_BYTES_MAX - 3))
    assert len(edge) == KEY_BYTES_MAX
    store.rebuild(START, [loaded({edge: b"0", LONG: b"1", LONGER: b"2", A: b"3"})])
    with store.view() as view:
        assert view.get_many([LONG, LONGER, edge, B]) == [b"1", b"2", b"0", None]
        assert [view.get(key) for key in (LONG, LONGER, edge, B)] == [b"1", b"2", b"0", None]
        assert [key for key, _ in view.scan(store_prefix(0, 2))] == sorted([edge, LONG, LONGER])
    store.advance(StoreVersion(START), NEXT, [loaded({LONG: None, LONGER: b"new"})])
    assert content(store) == {edge: b"0", LONGER: b"new", A: b"3"}


def test_the_map_grows_when_it_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(localstore, "MAP_BYTES_START", 1 << 18)
    store = LocalStore(tmp_path / "store")
    many = {store_key(0, 1, b"%06d" % n): bytes(500) for n in range(4000)}
    store.rebuild(START, [loaded(many)])
    assert content(store) == many
    more = {store_key(0, 2, b"%06d" % n): bytes(500) for n in range(4000)}
    assert store.advance(StoreVersion(START), NEXT, [loaded(more)])
    assert len(content(store)) == 8000
    store.close()


def test_a_map_that_may_not_grow_further_is_a_coded_error_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(localstore, "MAP_BYTES_START", 1 << 18)
    monkeypatch.setattr(localstore, "MAP_BYTES_MAX", 1 << 19)
    store = LocalStore(tmp_path / "store")
    store.rebuild(START, [loaded({A: b"1"})])
    with pytest.raises(StateError) as caught:
        store.advance(
            StoreVersion(START), NEXT, [loaded({store_key(0, 1, b"%06d" % n): bytes(500) for n in range(4000)})]
        )
    assert caught.value.code == "MP221"
    assert content(store) == {A: b"1"}
    store.close()


def test_a_file_that_may_not_grow_is_a_coded_error_when_a_store_is_made_and_when_it_is_written(tmp_path):
    def limited():
        store = LocalStore(tmp_path / "store")
        store.rebuild(START, [loaded({A: b"1"})])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        for work, code in (
            (
                lambda: store.advance(StoreVersion(START), NEXT, [loaded({store_key(0, 1, b"x"): bytes(100_000)})]),
                "MP221",
            ),
            (lambda: LocalStore(tmp_path / "other"), "MP220"),
        ):
            with pytest.raises(StateError) as caught:
                work()
            assert caught.value.code == code
        assert content(store) == {A: b"1"}

    assert in_child(limited) == 0


def test_a_folder_that_is_no_store_is_set_aside(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "data.mdb").write_bytes(b"garbage" * 2000)
    store = LocalStore(tmp_path / "store")
    assert stamp_of(store) is None
    assert (tmp_path / "store.damaged" / "data.mdb").read_bytes() == b"garbage" * 2000
    store.close()


def test_a_place_that_can_not_be_made_is_a_coded_error(tmp_path):
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(StateError) as caught:
        LocalStore(tmp_path / "file" / "store")
    assert caught.value.code == "MP220"


def test_a_store_from_before_a_reboot_is_not_trusted(tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "store")
    store.rebuild(START, [loaded({A: b"1"})])
    store.close()
    monkeypatch.setattr(localstore, "boot_id", lambda: "another boot")
    again = LocalStore(tmp_path / "store")
    assert stamp_of(again) is None
    assert not again.advance(StoreVersion(START), NEXT, [])
    again.rebuild(START, [loaded({B: b"2"})])
    assert stamp_of(again) == START
    again.close()


def test_a_damaged_stamp_is_no_stamp(store):
    store.rebuild(START, [])
    with store._env.begin(write=True) as txn:
        store._note(txn, localstore._STAMP, b"\xff")
    assert stamp_of(store) is None


def test_a_store_without_sums_of_an_earlier_version_is_no_copy(store):
    store.rebuild(START, [loaded({A: b"1"})])
    with store._env.begin(write=True) as txn:
        txn.put(b"stamp", bytes(txn.get(localstore._STAMP, db=store._meta))[:-4], db=store._meta)
        txn.delete(localstore._STAMP, db=store._meta)
    assert stamp_of(store) is None


def test_a_process_opens_a_place_once(tmp_path):
    one = LocalStore.at(tmp_path / "store")
    assert LocalStore.at(tmp_path / "store") is one
    one.close()


def test_a_store_whose_folder_was_removed_is_made_anew(tmp_path):
    path = tmp_path / "store"
    LocalStore.at(path).rebuild(START, [loaded({A: b"1"})])
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    again = LocalStore.at(path)
    assert stamp_of(again) is None
    again.rebuild(START, [loaded({B: b"2"})])
    assert content(again) == {B: b"2"}
    again.close()


@pytest.mark.parametrize("moment", ["refuse_links", "StoreUse", "lmdb.open"])
@pytest.mark.parametrize("remade", [False, True])
def test_a_store_that_is_removed_while_it_is_opened_is_made_anew(tmp_path, monkeypatch, moment, remade):
    removals = iter([True, True, *[False] * 9])
    where = localstore.lmdb if moment == "lmdb.open" else localstore
    known = getattr(where, moment.rpartition(".")[2])

    def removing(*args, **options):
        if next(removals):
            shutil.rmtree(tmp_path / "s")
            if remade:
                (tmp_path / "s").mkdir(mode=0o700)
        return known(*args, **options)

    monkeypatch.setattr(where, moment.rpartition(".")[2], removing)
    store = LocalStore.at(tmp_path / "s")
    store.rebuild(START, [loaded({A: b"1"})])
    assert not store.is_gone()
    store.close()
    monkeypatch.undo()
    again = LocalStore.at(tmp_path / "s")
    assert content(again) == {A: b"1"}
    again.close()


def test_a_store_that_is_removed_again_and_again_is_a_coded_error(tmp_path, monkeypatch):
    known = localstore.StoreUse

    def removing(path):
        use = known(path)
        shutil.rmtree(path)
        return use

    monkeypatch.setattr(localstore, "StoreUse", removing)
    with pytest.raises(StateError) as refused:
        LocalStore.at(tmp_path / "s")
    assert refused.value.code == "MP220"


def test_only_the_owner_may_read_a_store(tmp_path):
    LocalStore(tmp_path / "store").close()
    assert (tmp_path / "store").stat().st_mode & 0o77 == 0
    assert (tmp_path / "store" / "data.mdb").stat().st_mode & 0o77 == 0


PRELUDE = """
import os, sys
from pathlib import Path
from millpond.state.changes import Changes
from millpond.state.local import localstore
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storeversion import Stamp, StoreVersion
from millpond.state.local.storekey import store_key
path = Path(sys.argv[1])
START, NEXT = Stamp("u", 0, "h0"), Stamp("u", 1, "h1")
A, B = store_key(0, 1, b"k"), store_key(0, 2, b"k")
def say(word):
    print(word, flush=True)
def wait():
    sys.stdin.readline()
"""


def start(script, path, *, own_group=False):
    """Run a script in a process of its own; `go_on` makes it go on after a `wait()`."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=own_group,
    )


def heard(process):
    return process.stdout.readline().strip()


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def finish(process):
    process.communicate(timeout=600)
    assert process.returncode == 0


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL


def test_two_processes_share_a_store_and_only_one_advances_it(store):
    store.rebuild(START, [loaded({A: b"1"})])
    other = start(
        "store = LocalStore.at(path)\n"
        "say(store.advance(StoreVersion(START), NEXT, [Changes([A], [b'2'])]))\n"
        "wait()\n"
        "with store.view() as view: say(view.stamp.hash)",
        store.path,
    )
    assert heard(other) == "True"
    assert not store.advance(StoreVersion(START), Stamp("u", 1, "mine"), [loaded({A: b"mine"})])
    assert content(store) == {A: b"2"}
    store.advance(StoreVersion(NEXT), Stamp("u", 2, "h2"), [])
    go_on(other)
    assert heard(other) == "h2"
    finish(other)


def test_a_map_that_another_process_grew_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(localstore, "MAP_BYTES_START", 1 << 18)
    store = LocalStore(tmp_path / "store")
    store.rebuild(START, [loaded({A: b"1"})])
    other = start(
        "localstore.MAP_BYTES_START = 1 << 18\n"
        "many = [store_key(0, 2, b'%06d' % n) for n in range(8000)]\n"
        "LocalStore.at(path).advance(StoreVersion(START), NEXT, [Changes(many, [bytes(500)] * 8000)])",
        store.path,
    )
    finish(other)
    assert stamp_of(store) == NEXT
    assert len(content(store)) == 8001
    assert store.advance(StoreVersion(NEXT), START, [loaded({B: b"x"})])
    store.close()


def test_a_killed_reader_leaves_the_store_usable_and_its_place_is_cleared(store):
    store.rebuild(START, [loaded({A: b"1"})])
    for _ in range(2):
        reader = start("view = LocalStore.at(path).view()\nsay(view.stamp.hash)\nwait()", store.path)
        assert heard(reader) == "h0"
        kill(reader)
    assert store.advance(StoreVersion(START), NEXT, [loaded({A: b"2"})])
    assert content(store) == {A: b"2"}
    readers = start(
        "env = LocalStore.at(path)._env\nsay(env.reader_check())\nsay(env.info()['num_readers'])", store.path
    )
    assert heard(readers) == "0"
    finish(readers)


def test_disk_is_bounded_by_what_a_store_holds_however_often_it_is_written_and_whoever_dies(store):
    """Every epoch writes all values anew; readers are killed, and others come in their place, as workers do."""
    entries = {store_key(0, 2, b"%06d" % n): bytes([n % 251]) * 500 for n in range(300)}
    store.rebuild(START, [loaded(entries)])
    before = START
    for epoch in range(1, 121):
        after = Stamp("u", epoch, f"h{epoch}")
        assert store.advance(StoreVersion(before), after, [loaded({key: bytes([epoch]) * 500 for key in entries})])
        before = after
        if epoch % 40 == 1:
            reader = start("view = LocalStore.at(path).view()\nsay('reads')\nwait()", store.path)
            assert heard(reader) == "reads"
            kill(reader)
            finish(start("LocalStore.at(path)", store.path))
    size_bytes = (store.path / "data.mdb").stat().st_size
    assert size_bytes < 8 * sum(map(len, entries.values()))


def test_a_writer_killed_in_the_middle_changes_nothing_and_blocks_nobody(store):
    store.rebuild(START, [loaded({A: b"1"})])
    writer = start(
        "store = LocalStore.at(path)\n"
        "txn = store._env.begin(write=True)\n"
        "store._apply(txn, [([A, B], [b'9', b'9'])])\n"
        "say('writing')\n"
        "wait()",
        store.path,
    )
    assert heard(writer) == "writing"
    kill(writer)
    assert content(store) == {A: b"1"}
    assert store.advance(StoreVersion(START), NEXT, [loaded({A: b"2"})])
    assert content(store) == {A: b"2"}


def test_children_forked_before_the_store_was_opened_read_and_write_it(tmp_path):
    forked = start(
        "LocalStore(path).rebuild(START, [Changes([A], [b'1'])]) if os.fork() == 0 else os.wait()\n"
        "store = LocalStore.at(path) if os.getpid() == os.getpgrp() else os._exit(0)\n"
        "with store.view() as view: say(view.get_many([A])[0].decode())",
        tmp_path / "store",
        own_group=True,
    )
    assert heard(forked) == "1"
    finish(forked)


def test_a_store_opened_before_a_fork_is_refused_in_the_child_and_safe_in_the_parent(tmp_path):
    forked = start(
        "from millpond.errors import StateError\n"
        "store = LocalStore.at(path)\n"
        "store.rebuild(START, [Changes([A], [b'1'])])\n"
        "view = store.view()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    store.close()\n"
        "    try: LocalStore.at(path)\n"
        "    except StateError as error: os._exit(0 if error.code == 'MP224' else 1)\n"
        "    os._exit(2)\n"
        "say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "for turn in range(20):\n"
        "    now, then = (START, NEXT) if turn % 2 == 0 else (NEXT, START)\n"
        "    store.advance(StoreVersion(now), then, [Changes([A], [b'2'])])\n"
        "say(view.get_many([A])[0].decode())\n"
        "view.close()\n"
        "with store.view() as later: say(later.get_many([A])[0].decode())",
        tmp_path / "store",
    )
    assert [heard(forked) for _ in range(3)] == ["0", "1", "2"]
    finish(forked)


GROUPS = st.frozensets(st.integers(0, 9))


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.binary(max_size=3) | st.just(b"x" * 600)), st.binary()
    ),
    st.frozensets(st.integers(0, 9), min_size=1),
    GROUPS,
    GROUPS,
)
@settings(max_examples=some_of(60), deadline=None)
def test_a_store_that_is_handed_over_keeps_what_it_has_to_do_with(tmp_path_factory, entries, whole, held, groups):
    store = LocalStore(tmp_path_factory.mktemp("store"))
    try:
        state = {store_key(*place): value for place, value in entries.items() if place[1] in whole}
        here = held & whole
        store.begin(START, 0, ranges_of(whole))
        read = lambda ranges: [loaded({k: v for k, v in state.items() if group_of(k) in groups_in(ranges)})]  # noqa: E731
        for group in here:
            assert store.take(START, range(group, group + 1), read, sorted(whole))
        with store.view() as view:
            store_version = view.store_version
        kept = here & groups
        assert store.hand_over(store_version, sorted(groups)) == bool(kept)
        after = content(store)
        if not kept:
            assert after == {key: value for key, value in state.items() if group_of(key) in here}
            return
        assert after == {key: value for key, value in state.items() if group_of(key) in kept}
        with store.view() as view:
            assert view.store_version.stamp == START
            assert view.store_version.whole == ranges_of(groups)
            assert (frozenset(groups) if view.held is None else groups_in(view.held)) == kept
        assert not store.hand_over(store_version, sorted(groups)) or store_version.whole == ranges_of(groups)
    finally:
        store.close()


def test_a_reader_of_what_was_handed_over_meanwhile_is_told(store):
    store.rebuild(START, [loaded({A: b"1", B: b"2"})], ((1, 2),))
    view = store.view()
    assert store.hand_over(view.store_version, [1])
    view.pause()
    with pytest.raises(StateError) as caught:
        view.resume()
    assert caught.value.code == "MP222"
    view.close()


def test_groups_of_another_owner_are_not_taken(store):
    store.begin(START, 0, ((1, 2),))
    assert not store.take(START, range(1, 2), lambda ranges: (), [1])


def test_the_times_of_an_epochs_steps_are_remembered_until_the_next_one(store):
    store.note_busy(7, 0, 0.5)
    store.note_busy(7, 1, 0.25)
    with store.view() as view:
        assert view.busy(7) == {0: 0.5, 1: 0.25}
        assert view.busy(8) == {}
    store.note_busy(8, 0, 1.0)
    with store.view() as view:
        assert (view.busy(7), view.busy(8)) == ({}, {0: 1.0})

"""Roots of a spread storage: who gets which file, what is found after changes, and what a lost root looks like."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_state
from millpond.errors import StorageError
from millpond.state.changes import Changes
from millpond.state.local.storekey import store_key
from millpond.storage.addresses import shown_url
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.composed.spread import MARK, Root, SpreadStorage, open_spread, read_roots, rendezvous
from millpond.storage.content import get_content, put_content
from millpond.storage.contract import PutOutcome
from millpond.storage.open import open_storage, opens_elsewhere, register_backend
from tests.sizes import some_of

ELEMENTS = (ElementSchema("seen", "map", "partitioned", "", "str", "int"),)


def name_of(number):
    return f"deltas/{hashlib.sha1(b'%d' % number, usedforsecurity=False).hexdigest()}"


NAMES = [name_of(number) for number in range(200)]


class Disks:
    """Storages by label, which stay when addresses change; one may be gone or away."""

    def __init__(self):
        self.held = {}

    def spread(self, weights):
        roots = [Root(self.held.setdefault(label, MemoryStorage()), w, label) for label, w in weights.items()]
        return SpreadStorage(roots)


def code_of(call):
    with pytest.raises(StorageError) as caught:
        call()
    return caught.value.code, str(caught.value)


weights = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1, max_size=5)


@settings(max_examples=some_of(25))
@given(weights)
def test_each_root_gets_its_share(chosen):
    disks = Disks()
    storage = disks.spread(chosen)
    chosen_roots = Counter(storage._ranked(name_of(number))[0].shown for number in range(1000))
    total = sum(chosen.values())
    for label, weight in chosen.items():
        share = weight / total
        # Four standard deviations of a binomial, and a little for small shares.
        assert abs(chosen_roots[label] - 1000 * share) < 4 * (1000 * share * (1 - share)) ** 0.5 + 5


@settings(max_examples=some_of(25))
@given(weights, st.sampled_from("ghi"), st.integers(1, 9))
def test_a_new_root_takes_files_from_others_and_moves_none_between_them(before, label, weight):
    disks = Disks()
    old, new = disks.spread(before), disks.spread({**before, label: weight})
    for name in NAMES:
        was, now = old._ranked(name)[0].shown, new._ranked(name)[0].shown
        assert now in {was, label}


@settings(max_examples=some_of(25))
@given(weights, st.integers(1, 20))
def test_more_weight_moves_files_to_that_root_alone(before, more):
    disks = Disks()
    grown = next(iter(before))
    old, new = disks.spread(before), disks.spread({**before, grown: before[grown] + more})
    for name in NAMES:
        assert new._ranked(name)[0].shown in {old._ranked(name)[0].shown, grown}


@settings(max_examples=some_of(20))
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("bcdef"), st.integers(1, 9), max_size=4),
            st.lists(st.tuples(st.sampled_from(["put", "put", "delete"]), st.integers(0, 40)), max_size=25),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_whatever_roots_come_and_weights_change_it_is_a_dict(turns):
    """Roots only come: what was put before must be found; the home stays the first."""
    disks = Disks()
    model = {}
    roots = {"a": 1}
    for added, steps in turns:
        roots |= added
        storage = disks.spread(roots)
        for what, number in steps:
            name = name_of(number) if number % 4 else f"manifests/{number:010}"
            if what == "put":
                outcome = storage.put(name, name.encode())
                assert outcome is PutOutcome.WON or name in model
                model[name] = name.encode()
            else:
                storage.delete(name)
                model.pop(name, None)
        assert storage.list("") == sorted(model)
        assert storage.list("deltas") == sorted(name for name in model if name.startswith("deltas/"))
        for number in range(41):
            for name in (name_of(number), f"manifests/{number:010}"):
                assert storage.contains(name) == (name in model)
                if name in model:
                    assert storage.get(name) == model[name]
                else:
                    assert code_of(partial(storage.get, name))[0] == "MP304"


def test_what_is_listed_or_fenced_is_in_the_first_root():
    disks = Disks()
    storage = disks.spread({"a": 1, "b": 1000})
    small = ["genesis", "manifests/0000000001", "merged/0000000001", f"manifests/{'a' * 40}"]
    for name in (*small, *NAMES[:50]):
        storage.put(name, b"x")
    assert set(small) <= set(disks.held["a"].list(""))
    assert sorted(disks.held["b"].list("deltas")) == sorted(set(NAMES[:50]) - set(disks.held["a"].list("deltas")))
    assert not set(small) & set(disks.held["b"].list(""))


def test_a_lost_root_is_named_when_a_file_is_read_and_before_one_is_written():
    disks = Disks()
    storage = disks.spread({"a": 1, "b": 1, "c": 1})
    for name in NAMES:
        storage.put(name, b"x")
    disks.held["c"] = MemoryStorage()
    again = disks.spread({"a": 1, "b": 1, "c": 1})
    on_c = next(name for name in NAMES if again._ranked(name)[0].shown == "c")
    code, text = code_of(lambda: again.get(on_c))
    assert code == "MP353"
    assert "lost: c" in text
    other = next(name for name in map(name_of, range(200, 300)) if again._ranked(name)[0].shown == "c")
    assert code_of(lambda: again.put(other, b"x"))[0] == "MP353"
    assert disks.held["c"].list("") == []
    on_b = next(name for name in NAMES if again._ranked(name)[0].shown == "b")
    assert again.get(on_b) == b"x"


def test_a_lost_home_is_named_before_a_new_checkpoint_is_made_in_its_place():
    disks = Disks()
    storage = disks.spread({"a": 1, "b": 1})
    for name in NAMES[:20]:
        storage.put(name, b"x")
    disks.held["a"] = MemoryStorage()
    again = disks.spread({"a": 1, "b": 1})
    code, text = code_of(lambda: Checkpoint.open(again, ELEMENTS))
    assert code == "MP353"
    assert "lost: a" in text


def test_a_root_of_another_spread_storage_is_refused():
    disks = Disks()
    disks.spread({"a": 1, "c": 1000}).put(NAMES[0], b"x")
    disks.spread({"b": 1}).put(NAMES[0], b"x")
    foreign = disks.spread({"b": 1, "c": 1000})
    code, text = code_of(lambda: [foreign.put(name, b"x") for name in NAMES[:50]])
    assert code == "MP354"
    assert "storage: c" in text


def test_a_root_that_the_address_leaves_out_is_named_when_its_file_is_missed():
    disks = Disks()
    storage = disks.spread({"a": 1, "b": 1})
    for name in NAMES:
        storage.put(name, b"x")
    fewer = disks.spread({"a": 1, "c": 1})
    gone = next(name for name in NAMES if storage._ranked(name)[0].shown == "b")
    code, text = code_of(lambda: fewer.get(gone))
    assert code == "MP355"
    assert "name b too" in text


def test_a_crash_between_mark_and_note_is_no_loss():
    disks = Disks()
    storage = disks.spread({"a": 1, "b": 1000})
    put = disks.held["a"].put

    def dies(name, data):
        if name.startswith("spread-marked/"):
            raise KeyboardInterrupt
        return put(name, data)

    disks.held["a"].put = dies
    with pytest.raises(KeyboardInterrupt):
        storage.put(NAMES[0], b"x")
    disks.held["a"].put = put
    assert disks.held["b"].contains(MARK)
    again = disks.spread({"a": 1, "b": 1000})
    assert again.put(NAMES[0], b"x") is PutOutcome.WON
    disks.held["b"] = MemoryStorage()
    assert code_of(lambda: disks.spread({"a": 1, "b": 1000}).get(NAMES[0]))[0] == "MP353"


def test_an_error_of_a_root_is_told_as_it_is():
    disks = Disks()
    storage = disks.spread({"a": 1, "b": 1})
    storage.put(NAMES[0], b"x")
    holder = disks.held[storage._ranked(NAMES[0])[0].shown]

    def broken(name):
        raise StorageError("MP331", "can't read")

    holder.get = broken
    assert code_of(lambda: storage.get(NAMES[0]))[0] == "MP331"


def test_a_checkpoint_lives_on_folders_and_a_log_and_its_address_opens_it_elsewhere(tmp_path):
    url = f"spread://2*{tmp_path}/one|{tmp_path}/two|log://{tmp_path}/three"
    storage = open_storage(url)
    checkpoint = Checkpoint.open(storage, ELEMENTS, key_groups=8, instances=1)
    state, epochs = {}, itertools.count()

    def used():
        return [folder for folder in ("one", "two") if (tmp_path / folder / "deltas").exists()]

    # Where a file goes follows from its name and the paths of the roots, which are others in each run.
    while used() != ["one", "two"]:
        epoch = next(epochs)
        assert epoch < 1000
        changed = {store_key(0, group, b"%d" % epoch): b"v" * 30 for group in range(8)}
        state |= changed
        work = EpochWork((Changed(Changes(sorted(changed), [changed[key] for key in sorted(changed)])),), (), {})
        checkpoint.run_epoch(Batch("q", epoch), lambda _, work=work: work, lambda _: None, partitions=1)
    assert read_state(open_storage(storage.url)) == state
    assert opens_elsewhere(storage.url)
    assert not opens_elsewhere("spread:///disk1|memory://here")
    script = (
        "import sys\nfrom millpond.storage.open import open_storage\n"
        "from millpond.checkpoint.recovery import read_state\n"
        "print(len(read_state(open_storage(sys.argv[1]))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, storage.url], capture_output=True, text=True, check=True, cwd=tmp_path.parent
    )
    assert done.stdout == f"{len(state)}\n"


def test_a_disk_that_is_not_mounted_is_named_by_its_path(tmp_path):
    url = f"spread://{tmp_path}/one|{tmp_path}/two"
    storage = open_storage(url)
    refs = [put_content(storage, "snapshots", b"%d" % number, mark="test") for number in range(200)]
    shutil.rmtree(tmp_path / "two")
    (tmp_path / "two").mkdir()
    told = [code_of(lambda ref=ref: get_content(open_storage(url), ref)) for ref in refs if not on_disk(tmp_path, ref)]
    assert told
    assert {code for code, _ in told} == {"MP353"}
    assert all(f"{tmp_path}/two" in text for _, text in told)


def on_disk(tmp_path, ref):
    return (tmp_path / "one" / ref.name).exists()


def test_a_path_with_a_bar_in_it_can_be_a_root(tmp_path):
    (tmp_path / "a|b").mkdir()
    storage = open_storage(f"spread://file://{tmp_path!s}/a%7Cb|{tmp_path}/c")
    for name in NAMES:
        storage.put(name, b"x")
    again = open_storage(storage.url)
    assert again.list("deltas") == sorted(NAMES)
    assert (tmp_path / "a|b" / "deltas").exists()


@pytest.mark.parametrize(
    "rest",
    ["", "|", "/a|", "|/a", "0*/a|/b", "1000001*/a|/b", "/a|/a", "2*/a|3*/a", "/a|spread:///b", "3*"],
)
def test_what_is_no_address_is_refused(rest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert code_of(lambda: open_storage(f"spread://{rest}"))[0] == "MP352"


@pytest.mark.parametrize("url", ["spread:/a|/b", "spread:?root=/a"])
def test_an_address_of_another_form_is_refused(url):
    assert code_of(lambda: open_storage(url))[0] == "MP352"


def test_a_root_of_no_known_kind_is_refused_as_ever():
    assert code_of(lambda: open_storage("spread:///a|nothing://b"))[0] == "MP311"


def test_the_scheme_is_taken():
    assert code_of(lambda: register_backend("spread", lambda url: MemoryStorage()))[0] == "MP340"


def test_passwords_are_shown_nowhere(monkeypatch):
    secret = "s3cr%40et"
    url = f"spread:///disk1/recs|2*redis://me:{secret}@host:6379/0/recs|/disk3/recs"
    assert secret not in shown_url(url)
    assert [address for _, address in read_roots(url)][1] == f"redis://me:{secret}@host:6379/0/recs"

    class Away(MemoryStorage):
        def __init__(self, url):
            super().__init__()
            self.address = url

        @property
        def url(self):
            return self.address

    storage = open_spread(url, Away)
    assert secret in storage.url, "other processes must be able to open it"
    assert secret not in repr(storage)
    assert secret not in code_of(lambda: storage.get(NAMES[0]))[1]
    for name in NAMES:
        storage.put(name, b"x")
    storage._roots[1].storage._files.clear()
    again = SpreadStorage(storage._roots)
    for name in NAMES:
        if again._ranked(name)[0] is storage._roots[1]:
            code, text = code_of(lambda name=name: again.get(name))
            assert code == "MP353"
            assert secret not in text
            assert "redis://***@host" in text
    assert secret not in code_of(lambda: open_storage(f"{url}|0*/d"))[1]


def test_a_change_of_a_password_moves_nothing():
    assert rendezvous(shown_url("redis://a:1@h/0/x"), 1, "n") == rendezvous(shown_url("redis://b:2@h/0/x"), 1, "n")

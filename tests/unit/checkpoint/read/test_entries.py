"""Entries, look-ups, differences and feeds of changes, against dicts that lived through the same history."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.checkpoint.read.entries import Change, Kind, diff, entries, feed, lookup, sizes
from millpond.checkpoint.read.history import History, shown_epochs
from millpond.checkpoint.read.pieces import Pieces
from millpond.checkpoint.records.manifest import GENESIS_NAME, encode_manifest, manifest_name
from millpond.errors import EpochError, MillpondError, StateError, StorageError
from millpond.storage.backends.memory import MemoryStorage
from tests.sizes import some_of
from tests.unit.checkpoint.reading_histories import ELEMENTS, INSTANCES, KEY_GROUPS, Made, histories, made

QUICK = settings(max_examples=some_of(40), deadline=None)
EVERYWHERE = range(KEY_GROUPS)


def code_of(call):
    with pytest.raises(MillpondError) as caught:
        call()
    return caught.value.code


def by_place(found):
    found = list(found)
    told = {(entry.instance, entry.key): entry.value for entry in found}
    assert len(told) == len(found), "an entry was told twice"
    return told


def changes_between(models, name, before, after):
    """What changed: the kind, the old and the new value by place; values differ if they are saved as other bytes."""
    encode = ELEMENTS[name].type.values.encode
    old, new = models[before][name], models[after][name]
    told = {place: (Kind.ADDED, None, value) for place, value in new.items() if place not in old}
    told |= {place: (Kind.REMOVED, value, None) for place, value in old.items() if place not in new}
    both = [place for place in old if place in new and encode(old[place]) != encode(new[place])]
    told |= {place: (Kind.CHANGED, old[place], new[place]) for place in both}
    return {(after, place): change for place, change in told.items()}


def by_change(found):
    found = list(found)
    told = {(c.epoch, (c.instance, c.key)): (c.kind, c.old, c.new) for c in found}
    assert len(told) == len(found), "a change was told twice"
    return told


@given(histories, st.data())
@QUICK
def test_the_state_after_every_epoch_is_that_of_the_model(history, data):
    checkpoint = made(history, MemoryStorage())
    read = History(checkpoint.storage)
    assert list(read.epochs) == list(range(1, len(history) + 1))
    for epoch, model in enumerate(checkpoint.models):
        point = read.point(epoch)
        for name in ELEMENTS:
            assert by_place(entries(read, point, name)) == model[name]
    cut = data.draw(st.integers(0, KEY_GROUPS))
    for name in ELEMENTS:
        parts = [by_place(entries(read, point, name, groups)) for groups in (range(cut), range(cut, KEY_GROUPS))]
        assert not parts[0].keys() & parts[1].keys()
        assert parts[0] | parts[1] == model[name]


@given(histories)
@QUICK
def test_entries_are_in_the_order_of_instances_or_groups_and_then_of_keys(history):
    checkpoint = made(history, MemoryStorage())
    read = History(checkpoint.storage)
    for name in ELEMENTS:
        reader = read.reader(name, read.point())
        order = [reader.store_key(entry.key, entry.instance) for entry in entries(read, read.point(), name)]
        assert order == sorted(order)


@given(histories, st.data())
@QUICK
def test_a_look_up_finds_what_the_model_has_and_nothing_else(history, data):
    checkpoint = made(history, MemoryStorage())
    read = History(checkpoint.storage)
    epoch = data.draw(st.integers(0, len(history)))
    point, model = read.point(epoch), checkpoint.models[epoch]
    for name, element in ELEMENTS.items():
        held = [key for _, key in model[name]]
        for key in [data.draw(element.keys), *held]:
            wanted = {place: value for place, value in model[name].items() if place[1] == key}
            assert by_place(lookup(read, point, name, key)) == wanted
            if element.partial:
                of_one = by_place(lookup(read, point, name, key, instance=1))
                assert of_one == {place: value for place, value in wanted.items() if place[0] == 1}


@given(histories, st.data())
@QUICK
def test_a_difference_is_that_of_the_models_in_both_directions(history, data):
    checkpoint = made(history, MemoryStorage())
    read = History(checkpoint.storage)
    numbers = st.integers(0, len(history))
    before, after = data.draw(numbers), data.draw(numbers)
    for name in ELEMENTS:
        told = by_change(diff(read, read.point(before), read.point(after), name))
        assert told == changes_between(checkpoint.models, name, before, after)


@given(histories, st.data())
@QUICK
def test_a_feed_tells_every_change_of_every_epoch(history, data):
    checkpoint = made(history, MemoryStorage())
    read = History(checkpoint.storage)
    since = data.draw(st.integers(0, len(history)))
    until = data.draw(st.integers(since, len(history)))
    groups = data.draw(st.sampled_from((None, EVERYWHERE)))
    for name in ELEMENTS:
        wanted = {}
        for epoch in range(since + 1, until + 1):
            wanted |= changes_between(checkpoint.models, name, epoch - 1, epoch)
        assert by_change(feed(read, read.point(since), read.point(until), name, groups)) == wanted


@given(histories)
@QUICK
def test_sizes_count_each_entry_once(history):
    checkpoint = made(history, MemoryStorage())
    read = History(checkpoint.storage)
    counted = dict.fromkeys(range(len(ELEMENTS)), 0)
    stored = 0
    for size in sizes(read, read.point()):
        counted[size.element] += size.entries
        stored += size.size_bytes
    assert list(counted.values()) == [len(model) for model in checkpoint.models[-1].values()]
    assert stored == sum(len(key) + len(value) for key, value in checkpoint._state.items())


@pytest.mark.parametrize("instances", [1, 3, 5])
def test_a_rescale_shows_as_what_it_changed_and_not_as_a_move(instances):
    checkpoint = Made(MemoryStorage())
    checkpoint.epoch([("counts", {(0, 1): 1, (1, 1): 2, (1, 2): 3}), ("words", {(None, "a"): 1})])
    checkpoint.rescale(instances)
    checkpoint.epoch([("counts", {(0, 1): 9})])
    read = History(checkpoint.storage)
    for epoch, model in enumerate(checkpoint.models):
        assert by_place(entries(read, read.point(epoch), "counts")) == model["counts"]
    for before, after in ((1, 2), (2, 3), (3, 1)):
        told = by_change(diff(read, read.point(before), read.point(after), "counts"))
        assert told == changes_between(checkpoint.models, "counts", before, after)
    assert [entry.value for entry in lookup(read, read.point(3), "counts", 1)] == [9, 2][: min(instances, 2)]
    assert code_of(lambda: lookup(read, read.point(3), "counts", 1, instance=instances)) == "MP243"
    for since in (0, 1):
        assert code_of(lambda since=since: list(feed(read, read.point(since), read.point(3), "counts"))) == "MP453"
    after = list(feed(read, read.point(2), read.point(3), "counts"))
    assert after == [Change(3, Kind.CHANGED, 0, 1, 1, 9)]
    assert list(feed(read, read.point(1), read.point(3), "words")) == []


def test_a_state_that_does_not_fit_into_memory_is_read_from_a_temporary_file():
    checkpoint = Made(MemoryStorage())
    for epoch in range(6):
        words = {(None, f"{epoch % 3}-{number}"): number * epoch for number in range(50)}
        checkpoint.epoch([("words", words)], snapshot=epoch == 3)
    read = History(checkpoint.storage)
    point = read.point()
    told = []
    with Pieces(checkpoint.storage, told.append, memory_bytes=64) as pieces:
        pieces.load(point.files(), {0})
        pieces.load(point.files(), {0})
        assert pieces._held._rolled
        state = {}
        for cut in pieces.cuts(point.files()):
            state |= pieces.state(point.files(), cut)
    assert state == checkpoint._state
    assert sum(told) == sum(file.file.size_bytes for file in point.files())


def test_a_full_temporary_disk_is_told(monkeypatch):
    checkpoint = made([([("words", {(None, "a"): 1})], False)], MemoryStorage())
    read = History(checkpoint.storage)
    with Pieces(checkpoint.storage) as pieces:
        monkeypatch.setattr(pieces._held, "write", _no_space)
        assert code_of(lambda: pieces.load(read.point().files())) == "MP351"


def _no_space(_data):
    raise OSError(28, "No space left on device")


def test_epochs_that_are_not_kept_are_told_with_those_that_are():
    checkpoint = made([([("words", {(None, "a"): number})], False) for number in range(12)], MemoryStorage())
    for epoch in (2, 3, 7):
        checkpoint.storage.delete(manifest_name(epoch))
    read = History(checkpoint.storage)
    with pytest.raises(EpochError) as caught:
        read.point(3)
    assert (caught.value.code, caught.value.expected) == ("MP450", "1, 4 to 6, 8 to 12")
    # Later manifests list the changes of those that are gone.
    told = by_change(feed(read, read.point(1), read.point(12), "words"))
    assert [epoch for epoch, _ in told] == list(range(2, 13))
    assert by_place(entries(read, read.point(4), "words")) == checkpoint.models[4]["words"]


def test_changes_that_no_manifest_lists_are_told():
    history = [([("words", {(None, "a"): number})], number == 8) for number in range(12)]
    checkpoint = made(history, MemoryStorage())
    for epoch in range(2, 9):
        checkpoint.storage.delete(manifest_name(epoch))
    read = History(checkpoint.storage)
    assert code_of(lambda: list(feed(read, read.point(1), read.point(12), "words"))) == "MP451"
    assert len(list(feed(read, read.point(9), read.point(12), "words"))) == 3
    assert len(list(diff(read, read.point(1), read.point(12), "words"))) == 1


def test_a_feed_goes_forward():
    checkpoint = made([([], False), ([], False)], MemoryStorage())
    read = History(checkpoint.storage)
    assert code_of(lambda: list(feed(read, read.point(2), read.point(1), "words"))) == "MP452"


def test_an_empty_checkpoint_has_an_empty_state():
    read = History(Made(MemoryStorage()).storage)
    assert (read.epochs, read.point().epoch) == ((), 0)
    assert list(entries(read, read.point(), "words")) == list(sizes(read, read.point())) == []
    assert code_of(lambda: read.point(1)) == "MP450"


def test_what_is_no_checkpoint_is_told():
    assert code_of(lambda: History(MemoryStorage())) == "MP350"
    lost = made([([], False)], MemoryStorage()).storage
    lost.delete(GENESIS_NAME)
    assert code_of(lambda: History(lost)) == "MP414"


def test_what_is_not_there_is_told():
    checkpoint = made([([("words", {(None, "a"): 1})], False)], MemoryStorage())
    read = History(checkpoint.storage)
    with pytest.raises(StateError) as caught:
        read.element("wrods")
    assert caught.value.code == "MP240"
    assert "words, pairs" in caught.value.expected
    assert code_of(lambda: lookup(read, read.point(), "words", "a", instance=0)) == "MP243"
    assert code_of(lambda: lookup(read, read.point(), "counts", 1, instance=INSTANCES)) == "MP243"
    assert code_of(lambda: lookup(read, read.point(), "words", 1)) == "MP207"


@pytest.mark.parametrize("wrong", ["parent", "checkpoint", "epoch"])
def test_a_manifest_of_another_timeline_is_refused(wrong):
    checkpoint = made([([("words", {(None, "a"): 1})], False)] * 2, MemoryStorage())
    other = made([([("words", {(None, "b"): 1})], False)] * 2, MemoryStorage())
    foreign = msgspec.structs.replace(checkpoint.head, checkpoint="87654321-1234-4234-8234-123456789abc")
    first = History(checkpoint.storage).manifest(1)[0]
    put_back = {"parent": other.head, "checkpoint": foreign, "epoch": first}[wrong]
    checkpoint.storage.delete(manifest_name(2))
    checkpoint.storage.put(manifest_name(2), encode_manifest(put_back))
    assert code_of(lambda: History(checkpoint.storage).point()) == "MP413"


def test_epochs_are_shown_as_ranges():
    assert shown_epochs([]) == ""
    assert shown_epochs([1, 2, 3, 7, 9, 10]) == "1 to 3, 7, 9 to 10"
    assert shown_epochs(range(0, 100, 2)).startswith("..., ")


def test_damage_is_never_read_as_state():
    checkpoint = made([([("words", {(None, "a"): 1})], False)], MemoryStorage())
    name = checkpoint.head.deltas[0].files[0].file.name
    data = bytearray(checkpoint.storage.get(name))
    data[len(data) // 2] ^= 1
    checkpoint.storage.delete(name)
    checkpoint.storage.put(name, bytes(data))
    read = History(checkpoint.storage)
    for call in (entries, sizes):
        arguments = ("words",) if call is entries else ()
        with pytest.raises(StorageError):
            list(call(read, read.point(), *arguments))
    with pytest.raises(StorageError):
        lookup(read, read.point(), "words", "a")

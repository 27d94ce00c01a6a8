"""Who owns which key groups, as manifests note it."""

from __future__ import annotations

import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochWork
from millpond.checkpoint.records.manifest import ElementSchema, Manifest, Ownership, decode_manifest
from millpond.checkpoint.records.offers import Batch, Loaded, Rescaled, Ticked
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.errors import EpochError, StorageError
from millpond.keygroups import Layout
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.frame import FrameKind, seal, unseal

GROUPS = 8
ELEMENTS = (ElementSchema("seen", "counter", "partitioned", "", "str", "int"),)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_owners_are_read_as_they_were_noted(owners):
    layout = Layout(max(len(owners), 5), 5, 1, aligned=False)
    owners = tuple(owners) + (0,) * (layout.key_groups - len(owners))
    noted = Ownership.of(layout.with_owners(owners))
    assert msgspec.json.decode(msgspec.json.encode(noted), type=Ownership) == noted
    assert (noted.partitions, noted.owners(layout.key_groups)) == (5, owners)
    assert len(noted.runs) == 1 + sum(a != b for a, b in itertools.pairwise(owners))


def test_of_owners_that_nobody_assigned_nothing_is_noted():
    assert Ownership.of(Layout(GROUPS, 3, 1, aligned=False)) is None


@pytest.mark.parametrize(
    ("partitions", "runs"),
    [
        (2, ()),
        (2, ((1, 0),)),
        (2, ((0, 0), (0, 1))),
        (2, ((0, 0), (3, 2))),
        (2, ((0, -1),)),
        (1, ((0, 0), (40_000, 0))),
    ],
)
def test_owners_that_make_no_sense_are_refused(partitions, runs):
    with pytest.raises(EpochError) as caught:
        Ownership(partitions, runs)
    assert caught.value.code == "MP412"


def nothing(_):
    return EpochWork((), (), {})


def committed(storage) -> Manifest:
    return last_manifest(storage, read_genesis(storage)[1])[0]


@pytest.fixture
def storage():
    return MemoryStorage()


def run(checkpoint, offer, ownership=None):
    checkpoint.run_epoch(offer, nothing, lambda manifest: None, partitions=2, ownership=ownership)


def test_epochs_without_rows_hand_owners_on_and_a_rescale_does_not(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS, key_groups=GROUPS, instances=2)
    noted = Ownership(2, ((0, 1), (3, 0)))
    run(checkpoint, Batch("q", 0), noted)
    assert committed(storage).ownership == noted
    run(checkpoint, Loaded("words"))
    assert committed(storage).ownership == noted
    run(checkpoint, Ticked(), noted)
    assert committed(storage).ownership == noted
    run(checkpoint, Rescaled(4))
    assert committed(storage).ownership is None
    run(checkpoint, Batch("q", 1), noted)
    run(checkpoint, Batch("q", 2))
    assert committed(storage).ownership is None


def test_a_manifest_without_assigned_owners_does_not_mention_them(storage):
    run(Checkpoint.open(storage, ELEMENTS, key_groups=GROUPS), Batch("q", 0))
    name = committed(storage).name
    assert "ownership" not in json.loads(unseal(FrameKind.MANIFEST, storage.get(name), name))


def test_owners_of_more_groups_than_there_are_are_refused(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS, key_groups=GROUPS)
    run(checkpoint, Batch("q", 0), Ownership(2, ((0, 0), (GROUPS, 1))))
    with pytest.raises(EpochError) as caught:
        committed(storage)
    assert caught.value.code == "MP412"


def test_a_version_that_does_not_know_owners_refuses_the_manifest(storage):
    """As it refuses all that it does not know: `forbid_unknown_fields`."""
    run(Checkpoint.open(storage, ELEMENTS, key_groups=GROUPS), Batch("q", 0), Ownership(2, ((0, 1),)))
    name = committed(storage).name
    told = json.loads(unseal(FrameKind.MANIFEST, storage.get(name), name))
    told["owned"] = told.pop("ownership")
    with pytest.raises(StorageError) as caught:
        decode_manifest(seal(FrameKind.MANIFEST, json.dumps(told).encode()), name)
    assert caught.value.code == "MP312"

"""Checkpoints made by hand from a model in plain Python: what each epoch did, and what the state is after it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from millpond import Counter, List, Map, Matrix, Set, Value
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.manifest import (
    FORMAT,
    GENESIS_NAME,
    ElementSchema,
    EpochDeltas,
    Genesis,
    Manifest,
    encode_genesis,
    encode_manifest,
    manifest_hash,
    manifest_name,
)
from millpond.checkpoint.records.offers import Batch, BoundedRun, Rescaled
from millpond.checkpoint.records.times import Times
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.codec.typenames import type_text
from millpond.state.containers.element import ElementType
from millpond.state.containers.value import THE_KEY
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.frame import FrameKind

UUID = "12345678-1234-4234-8234-123456789abc"
KEY_GROUPS = 5
INSTANCES = 2


@dataclass(frozen=True)
class Declared:
    """A state element, and what may be in it."""

    type: ElementType
    keys: Any
    values: Any
    partial: bool = False

    def schema(self, name):
        kind, by = self.type.kind, self.type.by
        key, value = type_text(self.type.key_hint), type_text(self.type.value_hint)
        return ElementSchema(name, kind, "partial" if self.partial else "partitioned", by, key, value)


NUMBERS = st.integers(-3, 3)
ELEMENTS = {
    "words": Declared(ElementType.parse(Map[str, int], None), st.text(max_size=2), st.integers(-(2**63), 2**64 - 1)),
    "pairs": Declared(
        ElementType.parse(Map[tuple[str, int, bytes], list[float | None]], None),
        st.tuples(st.text(alphabet="\0a\xff", max_size=2), NUMBERS, st.binary(max_size=2)),
        st.lists(st.none() | st.floats(allow_nan=False), max_size=2),
    ),
    "days": Declared(
        ElementType.parse(Set[datetime.date], None), st.dates(max_value=datetime.date(2, 1, 1)), st.none()
    ),
    "when": Declared(
        ElementType.parse(Value[dict[bool, set[str]]], None),
        st.just(THE_KEY),
        st.dictionaries(st.booleans(), st.sets(st.text(max_size=1), max_size=2)),
    ),
    "log": Declared(ElementType.parse(List[bytes], None), st.integers(0, 4), st.binary(max_size=3)),
    "counts": Declared(ElementType.parse(Counter[int], None), NUMBERS, st.integers(0, 5), partial=True),
    "cells": Declared(
        ElementType.parse(Matrix[int, str, float], "column"),
        st.text(max_size=1),
        st.dictionaries(NUMBERS, st.floats(allow_nan=False), min_size=1, max_size=2),
        partial=True,
    ),
}
GENESIS = Genesis(
    FORMAT, UUID, KEY_GROUPS, INSTANCES, tuple(element.schema(name) for name, element in ELEMENTS.items()), 0
)

Place = tuple[int | None, Any]
"""An instance, or None, and a key."""

ABSENT = object()
"""The value of an entry that an epoch removes."""


@st.composite
def steps(draw):
    """What an epoch does to one element: new values by place, `ABSENT` where an entry goes."""
    name = draw(st.sampled_from(sorted(ELEMENTS)))
    element = ELEMENTS[name]
    instances = st.integers(0, INSTANCES - 1) if element.partial else st.none()
    places = st.tuples(instances, element.keys)
    return name, draw(st.dictionaries(places, element.values | st.just(ABSENT), max_size=4))


epochs = st.tuples(st.lists(steps(), max_size=3), st.booleans())
"""Steps, and whether a snapshot is taken."""

histories = st.lists(epochs, min_size=1, max_size=12)


@dataclass
class Made:
    """A checkpoint in a storage, and the model of each epoch: the entries of each element by place."""

    storage: Any
    genesis: Genesis = GENESIS
    models: list[dict[str, dict[Place, Any]]] = field(default_factory=lambda: [{name: {} for name in ELEMENTS}])
    head: Manifest | None = None
    hash: str = ""
    instances: int = INSTANCES
    _state: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self):
        data = encode_genesis(self.genesis)
        self.storage.put(GENESIS_NAME, data)
        self.hash = manifest_hash(data)

    def key_of(self, name, place):
        instance, key = place
        element = ELEMENTS[name]
        layout = Layout(KEY_GROUPS, 1, self.instances, aligned=False)
        if instance is not None:
            group = layout.home_of(instance)
        else:
            group = layout.group_of(THE_KEY if element.type.single else key)
        return store_key(list(ELEMENTS).index(name), group, element.type.keys.encode(key))

    def epoch(self, done, *, snapshot=False, offer=None, pending=()):
        """Commit an epoch; with a snapshot, of the state before it, in two chunks."""
        model = {name: dict(entries) for name, entries in self.models[-1].items()}
        changes: dict[bytes, bytes | None] = {}
        for name, step in done:
            for place, value in step.items():
                key = self.key_of(name, place)
                if value is ABSENT:
                    model[name].pop(place, None)
                    changes[key] = None
                else:
                    model[name][place] = value
                    changes[key] = ELEMENTS[name].type.values.encode(value)
        self._commit(changes, snapshot and self.head is not None, offer, pending)
        self.models.append(model)

    def rescale(self, instances):
        """Another number of instances, by merging or moving nothing: instance by instance as it was, as far as kept."""
        model = {name: dict(entries) for name, entries in self.models[-1].items()}
        moved: dict[bytes, bytes | None] = {}
        for name in (name for name, element in ELEMENTS.items() if element.partial):
            moved |= {self.key_of(name, place): None for place in model[name]}
        self.instances = instances
        for name in (name for name, element in ELEMENTS.items() if element.partial):
            model[name] = {place: value for place, value in model[name].items() if place[0] < instances}
            values = ELEMENTS[name].type.values
            moved |= {self.key_of(name, place): values.encode(value) for place, value in model[name].items()}
        self._commit(moved, snapshot=False, offer=Rescaled(instances))
        self.models.append(model)

    def _commit(self, changes, snapshot, offer, pending=()):
        number = 1 if self.head is None else self.head.epoch + 1
        files = []
        for half in (range(3), range(3, KEY_GROUPS)):
            keys = sorted(key for key in changes if group_of(key) in half)
            if keys:
                files.append(
                    write_changes(
                        self.storage, FrameKind.DELTA, Changes(keys, [changes[key] for key in keys]), mark="test"
                    )
                )
        own = EpochDeltas(number, self.hash, tuple(files))
        snapshot_epoch, chunks = (0, ()) if self.head is None else (self.head.snapshot_epoch, self.head.snapshot)
        if snapshot:
            snapshot_epoch = number - 1
            chunks = tuple(self._chunk(first, last) for first, last in ((0, 1), (2, KEY_GROUPS - 1)))
        listed = (*(() if self.head is None else self.head.deltas), own)
        offer = offer or Batch("q", number - 1, ("feed",))
        stream = offer if isinstance(offer, Batch) else (None if self.head is None else self.head.stream)
        runs = () if self.head is None else self.head.runs
        self.head = Manifest(
            format=FORMAT,
            checkpoint=UUID,
            epoch=number,
            parent=self.hash,
            offer=offer,
            partitions=2,
            snapshot_epoch=snapshot_epoch,
            snapshot=chunks,
            deltas=tuple(delta for delta in listed if delta.epoch > snapshot_epoch),
            outputs=(),
            runs=(*runs, offer.name) if isinstance(offer, BoundedRun) else runs,
            counters={"fed.feed": 3, "fed.other": 4, "replies.feed": 5},
            times=Times(),
            stream=stream,
            pending=pending,
            instances=None if self.instances == INSTANCES else self.instances,
        )
        data = encode_manifest(self.head)
        self.storage.put(manifest_name(number), data)
        self.hash = manifest_hash(data)
        self._state = {key: value for key, value in {**self._state, **changes}.items() if value is not None}

    def _chunk(self, first, last):
        keys = sorted(key for key in self._state if first <= group_of(key) <= last)
        return write_changes(
            self.storage,
            FrameKind.SNAPSHOT,
            Changes(keys, [self._state[key] for key in keys]),
            "test",
            (first, last),
        )


def made(history, storage) -> Made:
    checkpoint = Made(storage)
    for done, snapshot in history:
        checkpoint.epoch(done, snapshot=snapshot)
    return checkpoint

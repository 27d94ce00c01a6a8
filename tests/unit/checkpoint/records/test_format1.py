from __future__ import annotations

import msgspec
import pytest

from millpond.checkpoint.records.manifest import FORMAT, Manifest, decode_manifest, encode_manifest
from millpond.checkpoint.records.offers import (
    Batch,
    BoundedRun,
    Evolved,
    Forked,
    Loaded,
    Lost,
    Rescaled,
    Ticked,
)
from millpond.checkpoint.records.times import EventTimes, FeedMark, Times
from millpond.errors import StorageError
from millpond.storage.frame import FrameKind, seal, unseal

UUID = "12345678-1234-4234-8234-123456789abc"
NAME = "manifests/0000000001"
STREAM = {"query": "q", "batch": 2, "sources": ["kafka"]}
LOSS = {"epochs": [], "files": 0, "keys": 0, "updates": 0, "restored": 0}


def old(**changes):
    """A manifest as format 1 has it."""
    offer = {"query": "q", "batch": 2, "sources": ["kafka"]}
    fields = {
        "format": 1,
        "checkpoint": UUID,
        "epoch": 1,
        "parent": "a" * 64,
        **offer,
        "partitions": 2,
        "snapshot_epoch": 0,
        "snapshot": [],
        "deltas": [{"epoch": 1, "parent": "a" * 64, "files": []}],
        "outputs": [],
        "runs": [],
        "counters": {"fed.kafka": 7, "total.fed.kafka": 9},
        "stream": STREAM,
    }
    return fields | changes


def read(fields) -> Manifest:
    return decode_manifest(seal(FrameKind.MANIFEST, msgspec.json.encode(fields)), NAME)


def upkeep(query, **changes):
    return old(query=query, batch=0, sources=[], **changes)


@pytest.mark.parametrize(
    ("fields", "offer"),
    [
        (old(), Batch("q", 2, ("kafka",))),
        (old(query="run", stream={**STREAM, "query": "run"}), Batch("run", 2, ("kafka",))),
        (old(query="my:query", stream={**STREAM, "query": "my:query"}), Batch("my:query", 2, ("kafka",))),
        (old(query="run:ju:ne", batch=0, runs=["ju:ne"]), BoundedRun("ju:ne", ("kafka",))),
        (upkeep("rescale:4", instances=4), Rescaled(4)),
        (upkeep("evolve:0123456789abcdef", evolved=1), Evolved("0123456789abcdef")),
        (upkeep("load:films", loads=["films"]), Loaded("films")),
        (upkeep("tick:0"), Ticked()),
        (upkeep("loss:0", deltas=[{"epoch": 1, "parent": "a" * 64, "files": [], "loss": LOSS}]), Lost()),
        (upkeep(f"fork:{UUID}"), Forked(UUID)),
    ],
)
def test_the_query_told_the_kind_of_an_epoch(fields, offer):
    manifest = read(fields)
    assert (manifest.offer, manifest.format) == (offer, 1)
    assert manifest.stream == (offer if isinstance(offer, Batch) else Batch("q", 2, ("kafka",)))


def test_counters_told_the_times():
    told = {
        *("now=9", "fed=8", "soonest=11", "over.0=4", "over.12=-3", "watermark=-7", "horizon=-9"),
        *("ended=1", "heard.a.b=5", "heard.c=6", "seen.a.b=-2", "told=3", "turn=0"),
    }
    counters = {f"total.time.{name}": int(us) for name, us in (one.split("=") for one in told)}
    manifest = read(old(counters={"fed.kafka": 7, "total.fed.kafka": 9} | counters))
    event = EventTimes(-7, -9, True, {"a.b": FeedMark(5, -2), "c": FeedMark(6)})
    assert manifest.times == Times(9, 8, 11, ((0, 4), (12, -3)), event, 3, 0)
    assert manifest.counters == {"fed.kafka": 7, "total.fed.kafka": 9}


def test_a_version_that_knows_format_1_alone_refuses_what_is_written_now():
    manifest = read(old())
    written = msgspec.json.decode(
        unseal(FrameKind.MANIFEST, encode_manifest(msgspec.structs.replace(manifest, format=FORMAT)), NAME)
    )
    assert written["format"] == FORMAT
    known = msgspec.defstruct("Old", [(name, object) for name in old()], forbid_unknown_fields=True)
    assert msgspec.convert(old(), known)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(written, known)


def test_without_such_counters_there_are_no_times():
    assert read(old()).times == Times()


@pytest.mark.parametrize(
    "fields",
    [
        *({**old(), "times": {}}, {**old(), "offer": {"kind": "tick"}}, {**old(), "surprise": 1}),
        *(old(counters=None), old(counters={"total.time.over.x": 1}), old(stream=None), old(stream={"query": "q"})),
        *(old(query=""), old(batch=-1), old(query="run:june", batch=1, runs=["june"]), old(query="run:", batch=0)),
        *(upkeep(f"rescale:{number}") for number in ("", "0", "x", "-1")),
        *(upkeep("rescale:4", instances=5), old(query="rescale:4", batch=0), upkeep("tick:0") | {"batch": 1}),
        {name: value for name, value in old().items() if name != "query"},
    ],
)
def test_one_that_makes_no_sense_is_refused(fields):
    with pytest.raises(StorageError, match=NAME) as caught:
        read(fields)
    assert caught.value.code == "MP312"

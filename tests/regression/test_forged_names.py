"""A name in a file of the checkpoint never leads to a file outside of where such files lie."""

from __future__ import annotations

import msgspec
import pytest

from millpond.checkpoint.records.manifest import (
    FileRef,
    Manifest,
    OutputFile,
    decode_manifest,
    encode_manifest,
    manifest_name,
)
from millpond.engine.plan import SinkPlan
from millpond.errors import MillpondError, StorageError
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from millpond.storage.contract import is_name
from millpond.storage.frame import FrameKind, seal, unseal
from tests.unit.engine.publish.test_publish import Stage

FORGED = ("../victim", "../../victim", "/etc/victim", "a/../../victim", "..", ".", "", "x\0y", "a/b", "-/../v", "~/v")
FORGED += ("..\\victim", "victim\n", "%2e%2e/victim", "\u2024\u2024/victim", "x" * 600, "./victim", "sub//victim")


def tampered(manifest, change):
    """The bytes of a manifest with right checksums, in which somebody changed the JSON."""
    data = encode_manifest(manifest)
    record = msgspec.json.decode(unseal(FrameKind.MANIFEST, data, "m"))
    change(record)
    return seal(FrameKind.MANIFEST, msgspec.json.encode(record, order="sorted"))


def set_output(name, root=None):
    def change(record):
        record["outputs"][0]["file"]["name"] = name
        if root is not None:
            record["outputs"][0]["root"] = root

    return change


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("visible", [True, False])
def test_a_manifest_with_a_name_that_leads_elsewhere_is_refused_and_deletes_nothing(tmp_path, name, visible):
    work = Stage(tmp_path / "a" / "sink", visible=visible)
    victims = [tmp_path / "victim", tmp_path / "a" / "victim", work.root / "victim", tmp_path / "a" / "sink" / "v"]
    for victim in victims:
        victim.write_text("dear")
    data = tampered(work.manifest, set_output(name))
    sink = parquet(work.root) if visible else memory()
    with pytest.raises(MillpondError) as caught:
        work.publish_to({"replies": (sink, work.plan)}, manifest=decode_manifest(data, manifest_name(1)))
    assert caught.value.code in {"MP305", "MP312"}
    assert all(victim.read_text() == "dear" for victim in victims)


def test_a_plain_name_that_no_task_of_the_epoch_staged_is_refused_too(tmp_path):
    work = Stage(tmp_path / "sink", visible=True)
    (tmp_path / "other" / "_staged").mkdir(parents=True)
    victim = tmp_path / "other" / "_staged" / "dear.parquet"
    victim.write_bytes(b"dear")
    manifest = decode_manifest(
        tampered(work.manifest, set_output("dear.parquet", str(tmp_path / "other"))), manifest_name(1)
    )
    with pytest.raises(StorageError, match="MP305"):
        work.publish_to({"replies": (memory(), work.plan)}, manifest=manifest)
    assert victim.exists()


@pytest.mark.parametrize("root", ["relative/path", "..", "s3://bucket", "\0", "/tmp/\0x"])
def test_the_root_of_a_sink_in_a_manifest_is_a_whole_path(tmp_path, root):
    work = Stage(tmp_path / "sink")
    with pytest.raises(MillpondError, match="MP312"):
        decode_manifest(tampered(work.manifest, set_output(work.names()[0], root)), manifest_name(1))


@pytest.mark.parametrize("name", FORGED)
def test_every_reference_to_a_file_goes_through_the_same_check(name):
    assert not is_name(name) or "/" in name
    if is_name(name):
        with pytest.raises(MillpondError):
            OutputFile("replies", FileRef(name, 0, "0" * 64), 0)
        return
    with pytest.raises(StorageError, match="MP305"):
        FileRef(name, 0, "0" * 64)


def test_what_tasks_stage_passes(tmp_path):
    work = Stage(tmp_path / "sink")
    assert isinstance(decode_manifest(encode_manifest(work.manifest), manifest_name(1)), Manifest)
    assert SinkPlan("replies", str(tmp_path)).root

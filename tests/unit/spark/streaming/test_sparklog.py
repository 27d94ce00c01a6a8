"""What is read from Spark's own logs, and that nothing depends on it."""

from __future__ import annotations

import json

import pytest

from millpond.spark.streaming.sparklog import only_file


def note(folder, batch, log, files, *, compact=False):
    """Write the logs of one batch as Spark does: `files` are (number, path) pairs."""
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps({"logOffset": log}))
    source = folder / "sources" / "0"
    source.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": number}) for number, path in files]
    (source / f"{log}{'.compact' if compact else ''}").write_text("\n".join(["v1", *lines]))


def test_the_only_file_of_a_batch_is_found(tmp_path):
    note(tmp_path, 0, 0, [(0, "file:///in/a")])
    note(tmp_path, 1, 1, [(0, "file:///in/a"), (1, "file:///in/b")], compact=True)
    assert only_file(tmp_path, 0) == "file:///in/a"
    assert only_file(tmp_path, 1) == "file:///in/b"


def test_several_files_have_no_single_name(tmp_path):
    note(tmp_path, 0, 0, [(0, "file:///in/a"), (0, "file:///in/b")])
    note(tmp_path, 1, 2, [(2, "file:///in/d")])
    assert only_file(tmp_path, 0) is None
    assert only_file(tmp_path, 1) is None, "its batch spans two logs"


@pytest.mark.parametrize(
    "offsets",
    ["", "v1\n{}", "v1\n{}\n-", 'v1\n{}\n{"logOffset":0}\n{"logOffset":0}', 'v1\n{}\n{"topic":{"0":5}}', "v1\n{}\n7"],
)
def test_whatever_is_not_as_expected_tells_nothing(tmp_path, offsets):
    note(tmp_path, 0, 0, [(0, "file:///in/a")])
    (tmp_path / "offsets" / "0").write_text(offsets)
    assert only_file(tmp_path, 0) is None


def test_a_log_of_another_version_tells_nothing(tmp_path):
    note(tmp_path, 0, 0, [(0, "file:///in/a")])
    log = tmp_path / "sources" / "0" / "0"
    log.write_text(log.read_text().replace("v1", "v2"))
    assert only_file(tmp_path, 0) is None


def test_no_checkpoint_tells_nothing(tmp_path):
    assert only_file(tmp_path, 0) is None

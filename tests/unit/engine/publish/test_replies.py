from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.engine.arrowtypes import to_arrow
from millpond.engine.plan import SinkPlan
from millpond.engine.publish.replies import STAGING, reply_table, stage


def table(*values):
    return reply_table([("key", pa.int64())], [pa.array(range(len(values)))], to_arrow(list(values), float))


def test_a_reply_stands_beside_the_columns_that_are_kept():
    replies = reply_table(
        [("word", pa.string()), ("n", pa.int64())], [pa.array(["a", None]), pa.array([1, 2])], pa.array([1.5, None])
    )
    assert replies.to_pylist() == [{"word": "a", "n": 1, "reply": 1.5}, {"word": None, "n": 2, "reply": None}]


def test_a_staged_file_holds_the_table_and_is_named_by_its_sink_and_content(tmp_path):
    output = stage(SinkPlan("words", str(tmp_path)), table(1.5, 2.5), "0000000007-abcdabcd-02-00003")
    path = tmp_path / STAGING / output.file.name
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert output.sink == "words"
    assert output.rows == 2
    assert (output.file.size_bytes, output.file.sha256) == (len(data), digest)
    named = hashlib.sha256(f"words {digest}".encode()).hexdigest()
    assert output.file.name == f"0000000007-abcdabcd-02-00003-{named[:16]}.parquet"
    assert pq.read_table(path).equals(table(1.5, 2.5))


def test_a_retry_writes_the_same_file_under_the_same_name(tmp_path):
    sink = SinkPlan("words", str(tmp_path))
    assert stage(sink, table(1.5), "place") == stage(sink, table(1.5), "place")
    assert len(list((tmp_path / STAGING).iterdir())) == 1


def test_other_content_is_another_file(tmp_path):
    sink = SinkPlan("words", str(tmp_path))
    assert stage(sink, table(1.5), "place") != stage(sink, table(2.5), "place")
    assert len(list((tmp_path / STAGING).iterdir())) == 2


def test_readers_of_the_folder_see_nothing_before_publication(tmp_path):
    stage(SinkPlan("words", str(tmp_path)), table(1.5), "place")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(("_", "."))] == []

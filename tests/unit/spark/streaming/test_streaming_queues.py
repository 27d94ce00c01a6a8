"""Rows that wait in the sources, from what Spark tells of a batch."""

from __future__ import annotations

import json

import pytest

from millpond.spark.streaming.sparklog import queued_rows
from millpond.spark.streaming.streaming import Streaming

FILES = {"startOffset": {"logOffset": 1}, "endOffset": {"logOffset": 2}, "latestOffset": None}
RATE = {"startOffset": 4, "endOffset": 5, "latestOffset": 7}
RATE_BY_BATCH = {
    "startOffset": {"offset": 20, "timestamp": 2000},
    "endOffset": {"offset": 30, "timestamp": 3000},
    "latestOffset": {"offset": 50, "timestamp": 5000},
}
KAFKA = {
    "startOffset": {"clicks": {"0": 30, "1": 10}},
    "endOffset": {"clicks": {"0": 36, "1": 10}},
    "latestOffset": {"clicks": {"0": 40, "1": 110}},
    "metrics": {"avgOffsetsBehindLatest": "52.0", "maxOffsetsBehindLatest": "100", "minOffsetsBehindLatest": "4"},
}


def source(ended, latest):
    return {"startOffset": None, "endOffset": ended, "latestOffset": latest}


@pytest.mark.parametrize(
    ("sources", "rows"),
    [
        ([], None),
        ([FILES], None),
        ([RATE], None),
        ([RATE_BY_BATCH], None),
        ([KAFKA], 104),
        ([KAFKA, FILES, KAFKA], 208),
        ([source({"a": {"0": 5}}, {"a": {"0": 5}})], 0),
        ([source({"a": {"0": 5}}, {"a": {"0": 3}})], 0),
        ([source({"a": {"0": 5}}, {"a": {"0": 9, "1": 1000}})], 4),
        ([source({"a": {"0": 5, "1": 7}, "b": {"0": 1}}, {"a": {"0": 9}, "b": {"0": 3}})], 6),
        ([source({"a": {"0": 5}}, None)], None),
        ([source(None, {"a": {"0": 5}})], None),
        ([source("5", "9")], None),
        ([source('{"a": {"0": 5}}', '{"a": {"0": 9}}')], 4),
        ([source("{'a': {'0': 5}}", "{'a': {'0': 9}}")], None),
        ([source("no offset at all", "null")], None),
        ([source({}, {})], None),
        ([source({"a": {}}, {"a": {}})], None),
        ([source({"a": {"0": "5"}}, {"a": {"0": "9"}})], None),
        ([source({"a": {"0": 5.0}}, {"a": {"0": 9.5}})], None),
        ([source({"a": {"0": True}}, {"a": {"0": True}})], None),
        ([source({"a": {"index": 5}}, {"a": {"index": 9}})], None),
        ([source({"a": {"0": {"x": 1}}}, {"a": {"0": {"x": 2}}})], None),
        ([{"description": "of another version"}], None),
    ],
)
def test_only_what_is_certainly_rows_is_counted(sources, rows):
    assert queued_rows(json.dumps({"batchId": 3, "sources": sources})) == rows


class Told:
    """A query as far as its queue is looked at; `progress` is what Spark tells of it."""

    def __init__(self, progress):
        self.json = progress

    @property
    def lastProgress(self):  # noqa: N802
        if self.json is None:
            raise ConnectionError
        return self if self.json else None


@pytest.mark.parametrize(
    ("progress", "rows"),
    [("", None), (None, None), ("{", None), ("{}", None), (json.dumps({"sources": [KAFKA]}), 104)],
)
def test_a_query_that_does_not_tell_hinders_no_epoch(progress, rows):
    streaming = Streaming(None, "nowhere")
    assert streaming.queued_rows() is None
    streaming.query = Told(progress)
    assert streaming.queued_rows() == rows

"""What records of Kafka say of rows: JSON that json reads as the row, whatever columns there are."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pytest

from millpond.errors import SinkError
from millpond.sinks.kafka.topicrecords import Records

ROWS = {
    "n": [1, None, -(2**63)],
    "small": pa.array([255, None, 0], pa.uint8()),
    "x": [0.5, None, 1e300],
    "yes": [True, None, False],
    "none": pa.nulls(3),
    "big": pa.array(["a,b", None, ","], pa.large_string()),
    "few": pa.array(["a,b", None, "a,b"]).dictionary_encode(),
    "t": ['a "quoted" \\ é\n', None, ""],
    'odd "name"': ["x", None, "y"],
    "many": [[1, None], None, []],
    "one": [{"a": 1, "b": None}, None, {"a": None, "b": "x"}],
}


def values(records, rows):
    return [json.loads(value) for some in records.of(pa.table(rows)) for value in some.values]


def test_json_says_what_the_row_says():
    assert values(Records(), ROWS) == pa.table(ROWS).to_pylist()


def test_what_json_has_no_form_for_is_text():
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    rows = {
        "raw": [b"\x00\xff"],
        "price": [decimal.Decimal("1.50")],
        "day": [moment.date()],
        "at": pa.array([moment], pa.timestamp("us", tz="UTC")),
        "nan": [float("nan")],
    }
    (value,) = values(Records(), rows)
    assert value == {
        "raw": "AP8=",
        "price": "1.50",
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:05.000006Z",
        "nan": None,
    }


def test_rows_of_many_batches_come_in_their_order():
    rows = {"n": list(range(25_000))}
    assert [value["n"] for value in values(Records(), rows)] == rows["n"]


def test_keys_are_raw_or_json():
    table = pa.table({"k": ["ä", None], "n": [1, None], "x": [0.5, float("nan")], "raw": [b"\xff", None]})
    assert [some.keys for some in Records(key="k").of(table)] == [["ä".encode(), None]]
    assert [some.keys for some in Records(key="n").of(table)] == [[b"1", None]]
    assert [some.keys for some in Records(key="x").of(table)] == [[b"0.5", b"null"]]
    assert [some.keys for some in Records(key="raw").of(table)] == [[b"\xff", None]]
    assert [some.keys for some in Records().of(table)] == [None]


def test_headers_are_columns_of_their_names():
    table = pa.table({"n": [1, 2], "trace": ["t", None]})
    (some,) = Records(value="n", headers=(("a", "trace"), ("b", "n"))).of(table)
    assert some == ([b"1", b"2"], None, [[("a", b"t"), ("b", b"1")], [("a", None), ("b", b"2")]])


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(SinkError, match="MP803"):
        list(Records(value=("n", "m")).of(pa.table({"n": [1]})))

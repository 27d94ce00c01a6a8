"""Tables of a real PostgreSQL: the contract, types, upserts, two drivers at once, and a server that refuses."""

from __future__ import annotations

import datetime
import decimal
import itertools
import threading

import psycopg
import pytest

from millpond.engine.publish.deadletters import BadRow, letter_table
from millpond.errors import SinkError
from millpond.sinks import Token, jdbc
from millpond.testing.sinks import check_sink
from tests.contract.stages import staged

TOKEN = Token("0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 1)
_names = itertools.count()


@pytest.fixture
def url(postgres_server):
    return postgres_server.url


@pytest.fixture
def table():
    return f"my replies {next(_names)}"


def rows_of(url, table):
    with psycopg.connect(url) as database:
        if database.execute("SELECT to_regclass(%s)", [f'"{table}"']).fetchone()[0] is None:
            return []
        found = database.execute(f'SELECT * FROM "{table}"')
        return [dict(zip([column.name for column in found.description], row, strict=True)) for row in found]


def in_order(rows):
    """The rows of the contract, with what is nested in the order of its fields: jsonb has one of its own."""
    return [{**row, "nested": {name: row["nested"][name] for name in ("numbers", "name")}} for row in rows]


def again(token, epoch):
    return Token(token.checkpoint, token.lineage, token.sink, epoch)


def test_contract(url, table, tmp_path):
    check_sink(lambda: jdbc(url, table), lambda _: in_order(rows_of(url, table)), tmp_path)


def test_contract_of_upserts(url, table, tmp_path):
    def make():
        return jdbc(f"jdbc:{url}", table, mode="upsert", key=["n"])

    with psycopg.connect(url) as database:
        database.execute(f'CREATE TABLE "{table}" (n bigint PRIMARY KEY, text text, amount float, nested jsonb)')

    # The contract's last claim is that a fork adds rows of its own, which have the key of its base's here.
    with pytest.raises(AssertionError, match="the same rows in the same epoch of a fork: readers do not see"):
        check_sink(make, lambda _: in_order(rows_of(url, table)), tmp_path)


def test_the_last_row_of_a_key_stays(url, table, tmp_path):
    sink = jdbc(url, table, mode="upsert", key=["k"])
    sink.publish(TOKEN, staged(tmp_path, TOKEN, {"k": [1, 1, 2], "v": ["a", "b", "c"]}, {"k": [2], "v": ["d"]}))
    token = again(TOKEN, 2)
    sink.publish(token, staged(tmp_path, token, {"k": [1], "v": [None]}))
    assert sorted(rows_of(url, table), key=repr) == [{"k": 1, "v": None}, {"k": 2, "v": "d"}]


def test_types_arrive_as_they_are(url, table, tmp_path):
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    row = {
        "text": 'a "b", ,\\N\n',
        "empty": "",
        "nothing": None,
        "raw": b"\x00\xff",
        "yes": True,
        "price": decimal.Decimal("12.30"),
        "day": moment.date(),
        "moment": moment,
        "span": datetime.timedelta(days=-1, microseconds=5),
        "ratio": float("inf"),
        "many": [{"a": [1, None]}],
    }
    sink = jdbc(url, table)
    sink.publish(TOKEN, staged(tmp_path, TOKEN, {name: [value] for name, value in row.items()}))
    assert rows_of(url, table) == [row]


def test_dead_letters_are_taken(url, table, tmp_path):
    bad = [BadRow(0, "no such item", '{"n": 1}', 0, "topic 0", at) for at in (1, 2)]
    letters = letter_table(bad, "add", "add", 1, ordered=False)
    jdbc(url, table).publish(TOKEN, staged(tmp_path, TOKEN, letters))
    assert rows_of(url, table) == letters.to_pylist()


def test_two_drivers_with_the_same_epoch_write_it_once(url, table, tmp_path):
    files = staged(tmp_path, TOKEN, {"n": list(range(2000))})
    drivers = [threading.Thread(target=jdbc(url, table).publish, args=(TOKEN, files)) for _ in range(4)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert sorted(row["n"] for row in rows_of(url, table)) == list(range(2000))


def test_a_new_checkpoint_with_the_same_table_loses_nothing(url, table, tmp_path):
    other = Token("1b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), TOKEN.sink, 1)
    for token in (TOKEN, other):
        jdbc(url, table).publish(token, staged(tmp_path, token, {"n": [1]}))
    assert len(rows_of(url, table)) == 2


def test_rows_that_the_table_refuses_leave_nothing_behind(url, table, tmp_path):
    with psycopg.connect(url) as database:
        database.execute(f'CREATE TABLE "{table}" (n bigint CHECK (n < 3))')
    sink = jdbc(url, table)
    files = staged(tmp_path, TOKEN, {"n": [1]}, {"n": [3]})
    with pytest.raises(SinkError, match="violates check constraint") as caught:
        sink.publish(TOKEN, files)
    assert caught.value.code == "MP806"
    assert rows_of(url, table) == []
    assert sink.recover(TOKEN, [file.token for file in files.files]) == []


def test_a_server_that_is_away_is_told_without_its_password():
    sink = jdbc("postgresql://me:hunter2@127.0.0.1:1/shop", "t")
    with pytest.raises(SinkError) as caught:
        sink.recover(TOKEN, [])
    assert caught.value.code == "MP806"
    assert "hunter2" not in str(caught.value) + repr(sink) + repr(sink.describe())


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"mode": "upsert"}, "MP804"),
        ({"mode": "append", "key": ["k"]}, "MP804"),
        ({"mode": "merge", "key": ["k"]}, "MP804"),
        ({"mode": "upsert", "key": "k"}, "MP804"),
    ],
)
def test_a_mode_that_does_not_go_with_its_key_is_refused(how, code):
    with pytest.raises(SinkError) as caught:
        jdbc("postgresql://h/d", "t", **how)
    assert caught.value.code == code


def test_other_databases_are_refused_without_their_password():
    with pytest.raises(SinkError) as caught:
        jdbc("jdbc:mysql://me:hunter2@h/d", "t")
    assert caught.value.code == "MP807"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("table_of_rows", "code"), [({"v": [1]}, "MP803"), ({"k": [None, 1]}, "MP805")], ids=["missing", "null"]
)
def test_rows_without_their_key_are_refused(url, table, tmp_path, table_of_rows, code):
    sink = jdbc(url, table, mode="upsert", key=["k"])
    with pytest.raises(SinkError) as caught:
        sink.publish(TOKEN, staged(tmp_path, TOKEN, table_of_rows))
    assert caught.value.code in {code, "MP806"}

"""Handing batches over between a server and its client: each once, in order, whatever fails; without any Spark."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from millpond.errors import ConnectError, MillpondError, QueryStopped
from millpond.spark.streaming import connect
from millpond.spark.streaming.connect import Handing, Relay, Words, over_connect, start_patiently
from tests.sizes import some_of

SECONDS_MAX = 600


class FakeConf:
    def __init__(self):
        self.said = {}

    def get(self, name, default):
        return self.said.get(name, default)

    def set(self, name, value):
        self.said[name] = value

    def unset(self, name):
        self.said.pop(name, None)


class FakeSession:
    """What the two sides share: settings, and views."""

    def __init__(self):
        self.conf = FakeConf()
        self.catalog = self
        self.views = {}
        self.tags = []
        self.interrupted = []

    def addTag(self, tag):  # noqa: N802 - Spark's name
        self.tags.append(tag)

    def interruptTag(self, tag):  # noqa: N802 - Spark's name
        self.interrupted.append(tag)

    def dropGlobalTempView(self, name):  # noqa: N802 - Spark's name
        del self.views[name]

    def table(self, name):
        return self.views[name.removeprefix("global_temp.")]


class FakeBatch:
    def __init__(self, session, rows):
        self.session = session
        self.rows = rows

    def createOrReplaceGlobalTempView(self, name):  # noqa: N802 - Spark's name
        self.session.views[name] = self.rows


class FakeQuery:
    """A query that calls its function for one batch after the other, as a server does, until one fails."""

    id = "query"

    def __init__(self, session, function, first, batches):
        self.error = None
        self._session, self._function, self._first, self._batches = session, function, first, batches
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def isActive(self):  # noqa: N802 - Spark's name
        return self._thread.is_alive()

    def awaitTermination(self):  # noqa: N802 - Spark's name
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()

    def _run(self):
        try:
            for number, rows in enumerate(self._batches, self._first):
                self._function(FakeBatch(self._session, rows), number)
        except MillpondError as error:
            self.error = error


@settings(max_examples=some_of(25), deadline=None)
@given(first=st.integers(0, 12), count=st.integers(0, 5), fails_at=st.none() | st.integers(0, 5), waits=st.booleans())
def test_batches_come_once_each_in_order_until_one_fails(first, count, fails_at, waits):
    session = FakeSession()
    relay = Relay(session)
    seen = []

    def on_batch(query, batch, number):
        assert query == "query"
        seen.append((number, batch))
        if fails_at is not None and number == first + fails_at:
            raise ValueError("no room")

    batches = [f"rows {number}" for number in range(count)]
    query = FakeQuery(session, relay.function, first, batches)
    relay.start(query, on_batch)
    query.awaitTermination()
    if waits:
        relay.end()
    else:
        until = [thread for thread in threading.enumerate() if thread.name == "millpond-batches"]
        assert [thread.join(SECONDS_MAX) for thread in until] == [None] * len(until)
    last = count if fails_at is None else min(count, fails_at + 1)
    assert seen == [(first + number, f"rows {number}") for number in range(last)]
    if fails_at is not None and fails_at < count:
        assert isinstance(query.error, ConnectError)
        assert (query.error.code, query.error.found) == ("MP671", "ValueError: no room")
    else:
        assert query.error is None
    assert session.conf.said == {}
    assert session.views == {}


def test_a_batch_whose_query_is_stopped_meanwhile_is_interrupted_and_not_committed():
    session = FakeSession()
    relay = Relay(session)
    session.conf.set(relay.function.words.batch, "3")
    session.views[relay.function.words.view] = "rows"

    class Stoppable:
        id = "query"
        isActive = True  # noqa: N815 - Spark's name

    query, wanted, refused = Stoppable(), [], threading.Event()

    def on_batch(name, batch, number):
        relay.check_wanted()
        wanted.append(number)
        query.isActive = False
        try:
            relay.check_wanted()
        except QueryStopped:
            refused.set()
            raise

    relay.start(query, on_batch)
    assert refused.wait(SECONDS_MAX)
    relay.end()
    assert wanted == [3]
    assert session.interrupted == session.tags


def test_a_server_waits_for_a_slow_client_and_gives_up_a_silent_one(monkeypatch):
    """By a clock that every look turns: the client beats for a minute, and then no more."""
    turned = defaultdict(float)

    class Turning:
        def ticks(self):
            return turned["s"]

        def sleep(self, seconds):
            turned["s"] += 1
            if turned["s"] < 300:
                session.conf.set(words.beat, str(turned["s"]))

    forgotten = []
    monkeypatch.setattr(connect, "_CLOCK", Turning())
    monkeypatch.setattr(connect, "forget_stores", lambda spark, root, tasks: forgotten.append((spark, root, tasks)))
    session, words = FakeSession(), Words("t")
    with pytest.raises(ConnectError) as given_up:
        Handing(session, words, "root")(FakeBatch(session, "rows"), 7)
    assert given_up.value.code == "MP670"
    assert forgotten == [(session, "root", connect.FORGET_TASKS)]
    assert 300 + connect.PATIENCE_S - connect.BEAT_S <= turned["s"] <= 300 + connect.PATIENCE_S + 2 * connect.BEAT_S
    assert session.views == {}


def test_a_query_without_a_client_ends_also_if_its_stores_can_not_be_removed(monkeypatch):
    def refuse(*_):
        raise PySparkException("gone")

    monkeypatch.setattr(connect, "forget_stores", refuse)
    session = FakeSession()
    with pytest.raises(ConnectError) as given_up:
        Handing(session, Words("t"), patience_s=0.0)(FakeBatch(session, "rows"), 7)
    assert given_up.value.code == "MP670"


def test_a_word_of_another_batch_is_no_answer(monkeypatch):
    session, words = FakeSession(), Words("t")
    session.conf.set(words.done, "6 failed")

    class Answering:
        def ticks(self):
            return 0.0

        def sleep(self, seconds):
            session.conf.set(words.done, "7")

    monkeypatch.setattr(connect, "_CLOCK", Answering())
    Handing(session, words)(FakeBatch(session, "rows"), 7)
    assert session.conf.get(words.batch, "") == "7"


def late(times, error="[X] Python worker failed to connect back."):
    """A start that fails so many times."""
    tries = []

    def start():
        tries.append(len(tries))
        if len(tries) <= times:
            raise PySparkException(error)
        return tries

    return start, tries


@pytest.mark.parametrize("times", range(connect.START_TRIES))
def test_a_process_for_batches_that_is_late_is_started_again(times):
    start, tries = late(times)
    assert start_patiently(start) is tries
    assert len(tries) == times + 1


def test_a_process_that_never_comes_and_other_errors_are_told():
    start, tries = late(connect.START_TRIES)
    with pytest.raises(ConnectError) as told:
        start_patiently(start)
    assert (told.value.code, len(tries)) == ("MP672", connect.START_TRIES)
    start, tries = late(1, "no such table")
    with pytest.raises(PySparkException, match="no such table"):
        start_patiently(start)
    assert len(tries) == 1


def test_a_session_is_known_by_its_class():
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    assert over_connect(remote())
    assert over_connect(type("Own", (remote,), {})())
    assert not over_connect(type("SparkSession", (), {"__module__": "pyspark.sql.session"})())

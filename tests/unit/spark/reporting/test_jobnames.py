"""Jobs of an epoch have names in Spark's UI, and a thread has its own names back after it."""

from __future__ import annotations

import pytest

from millpond.spark.reporting import jobnames
from millpond.spark.reporting.jobnames import epoch_name, named


class Context:
    def __init__(self, **properties):
        self.properties = dict(properties)

    def getLocalProperty(self, key):  # noqa: N802 - as Spark calls it
        return self.properties.get(key)

    def setLocalProperty(self, key, value):  # noqa: N802
        self.properties[key] = value


class Session:
    def __init__(self, context):
        self.sparkContext = context
        self.tags = []

    def addTag(self, tag):  # noqa: N802
        self.tags.append(tag)

    def removeTag(self, tag):  # noqa: N802
        self.tags.remove(tag)


@pytest.fixture(autouse=True)
def classic(monkeypatch):
    monkeypatch.setattr(jobnames, "over_connect", lambda session: session.sparkContext is None)


def test_the_name_tells_program_epoch_and_steps():
    assert epoch_name("Recommender", 12, 1) == "Recommender, epoch 12, step 0"
    assert epoch_name("Recommender", 12, 3) == "Recommender, epoch 12, steps 0 to 2"


def test_a_job_without_a_group_gets_one_and_the_thread_is_as_before():
    context = Context()
    with named(Session(context), "Visits, epoch 1, step 0"):
        assert context.properties == {
            "spark.job.description": "Visits, epoch 1, step 0",
            "spark.jobGroup.id": "millpond Visits",
        }
    assert set(context.properties.values()) == {None}


def test_the_group_of_a_query_stays_since_spark_stops_it_by_that():
    context = Context(**{"spark.jobGroup.id": "run-7", "spark.job.description": "batch 3"})
    seen = {}

    def fail():
        with named(Session(context), "Visits, epoch 1, step 0"):
            seen.update(context.properties)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == {"spark.jobGroup.id": "run-7", "spark.job.description": "Visits, epoch 1, step 0"}
    assert context.properties == {"spark.jobGroup.id": "run-7", "spark.job.description": "batch 3"}


def test_through_connect_the_name_is_a_tag():
    session = Session(None)
    with named(session, "Visits, epoch 1, step 0"):
        assert session.tags == ["Visits epoch 1 step 0"]
    assert session.tags == []


def test_a_session_that_takes_no_names_runs_without(monkeypatch):
    class Shy:
        @property
        def sparkContext(self):  # noqa: N802
            raise RuntimeError("not here")

    monkeypatch.setattr(jobnames, "over_connect", lambda session: False)
    with named(Shy(), "Visits, epoch 1, step 0"):
        pass

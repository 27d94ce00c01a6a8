"""What a task works on: columns by feed, bad rows taken out, answers gathered in the order of the instances."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from millpond.engine.messages import MESSAGE_SCHEMA
from millpond.engine.plan import EpochPlan
from millpond.engine.simulated import Fed, Simulated
from millpond.engine.task import intake as module
from millpond.engine.task.intake import Intake
from millpond.errors import EpochError
from millpond.state.codec.wire import encode_values
from tests.programs.keyed import Fraud, Words
from tests.sizes import compile_once


def read_feeds(plan, epoch, batches):
    intake = Intake()
    module.read_feeds(plan, epoch, batches, intake)
    return intake


def read_messages(plan, step, batches):
    intake = Intake()
    module.read_messages(plan, step, batches, intake)
    return intake


def first_epoch(simulated):
    return EpochPlan(1, simulated._checkpoint.parent)


def test_no_rows_are_no_work(tmp_path):
    simulated = Simulated(compile_once(Fraud), tmp_path)
    assert read_feeds(simulated._plan, first_epoch(simulated), []).work == []
    assert read_messages(simulated._plan, 1, []).work == []


def test_rows_are_sorted_out_by_feed_and_bad_ones_taken_out(tmp_path):
    simulated = Simulated(compile_once(Fraud), tmp_path, partitions=1)
    rows = [("pay", ("a", 1, 5.0)), ("pay", ("a", None, 5.0)), ("alarms_of", ("a",)), ("pay", (None, 1, 5000.0))]
    intake = read_feeds(simulated._plan, first_epoch(simulated), simulated._route(Fed(rows)))
    assert {work.task.entry: len(work) for work in intake.work} == {"pay": 1, "alarms_of": 1}
    assert [work.variables["account"].take(None) for work in intake.work] == [["a"], ["a"]]
    # Rows arrive backwards in a simulated run. The first thing that is wrong with a row is its reason.
    assert [(bad.order, bad.reason) for bad in intake.bad] == [
        (3, "`account` is null, and it is the key"),
        (1, "`when` is null, and it is a required value"),
    ]
    assert json.loads(intake.bad[1].row) == {"account": "a", "when": None, "amount": 5.0, "row": 1}


def answers(plan, instances, bodies):
    task = plan.program.entries["count"].tasks[1]
    count = len(instances)
    columns = {name: [0] * count for name in MESSAGE_SCHEMA.names}
    columns |= {
        "task": [plan.task_id(task)] * count,
        "feed": [1] * count,
        "inst": instances,
        "src": [None] * count,
        "path": [None] * count,
    }
    columns["body"] = [encode_values(body) for body in bodies]
    return pa.RecordBatch.from_pydict(columns, schema=MESSAGE_SCHEMA)


def test_answers_are_gathered_in_the_order_of_the_instances(tmp_path):
    simulated = Simulated(compile_once(Words), tmp_path, partitions=1)
    plan = simulated._plan
    width = plan.layout.instances
    order = [3, 1, 0, 2, *range(4, width)]
    body = plan.program.entries["count"].tasks[1].inputs
    assert len(body) == 1
    intake = read_messages(plan, 1, [answers(plan, order, [(number * 10, 7) for number in order])])
    (work,) = intake.work
    assert work.variables[body[0]].take(None) == [[number * 10 for number in range(width)]]
    assert intake.received == width


def test_a_missing_answer_is_noticed(tmp_path):
    simulated = Simulated(compile_once(Words), tmp_path, partitions=1)
    plan = simulated._plan
    order = list(range(plan.layout.instances - 1))
    with pytest.raises(EpochError) as caught:
        read_messages(plan, 1, [answers(plan, order, [(1, 7) for _ in order])])
    assert caught.value.code == "MP430"

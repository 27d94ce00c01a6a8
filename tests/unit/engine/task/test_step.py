"""One task of a step: the same rows give the same bytes, in whatever order they arrive and however often it runs."""

from __future__ import annotations

import multiprocessing
import random
from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest

from millpond.engine.messages import CONTROL_TASK, decode_control
from millpond.engine.plan import EpochPlan
from millpond.engine.simulated import Fed, Simulated
from millpond.engine.task import working
from millpond.engine.task.intake import feed_column
from millpond.engine.task.ordering import content_tie, source_ranks
from millpond.engine.task.step import StepRun
from millpond.ids import PartitionId
from millpond.keygroups import hash_int
from tests.programs.keyed import Recommender, Totals, fresh_seed, oracle, random_rows
from tests.sizes import compile_once


def plan_of(program, folder, partitions=2):
    simulated = Simulated(compile_once(program), folder, partitions)
    return simulated, EpochPlan(1, simulated._checkpoint.parent)


def without_times(batch):
    """A step's rows, without times and places in the control rows: these alone may differ between attempts."""
    rows = []
    for row in batch.to_pylist():
        if row["task"] == CONTROL_TASK:
            control = decode_control(row["body"])
            told = set(control.__struct_fields__) - {"spent", "seen", "busy"}
            row["body"] = {name: getattr(control, name) for name in told}
        rows.append(row)
    return rows


def totals_batch(keys, positions, sources=None):
    """Rows of a file source for `Totals.add`, all of one key group owner."""
    return pa.RecordBatch.from_pydict(
        {
            "feed": pa.array([0] * len(keys), pa.int32()),
            "grp": pa.array([hash_int(key) % 128 for key in keys], pa.int32()),
            "ord": pa.array([0] * len(keys), pa.int64()),
            "src": pa.array(sources or ["file"] * len(keys), pa.string()),
            "pos": pa.array(positions, pa.int64()),
            feed_column(0, "key"): pa.array(keys, pa.int64()),
            feed_column(0, "amount"): pa.array([float(key + at) for at, key in zip(positions, keys, strict=True)]),
            "k0_0": pa.array(positions, pa.int64()),
        }
    )


def attempt(folder, start, results):
    """One attempt of a partition in a process of its own, begun together with another."""
    working.INLINE_BYTES_MAX = 40
    simulated, epoch = plan_of(Recommender, folder)
    # Both are attempts of one driver.
    epoch = replace(epoch, parent=msgspec.structs.replace(epoch.parent, mark="one"))
    rows = random_rows(Recommender, 3, 60)
    batch = simulated._route(Fed(rows))[1]
    start.wait()
    results.put(without_times(StepRun(simulated._plan, epoch, 0, PartitionId(1)).run([batch])))


def test_two_attempts_of_one_partition_at_once_give_the_same_rows_and_files(tmp_path):
    # Both attempts write the same delta and open the same local store.
    Simulated(compile_once(Recommender), tmp_path)
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(2), context.Queue()
    attempts = [context.Process(target=attempt, args=(tmp_path, start, results)) for _ in range(2)]
    for one in attempts:
        one.start()
    first, second = results.get(timeout=600), results.get(timeout=600)
    for one in attempts:
        one.join(timeout=600)
    assert [one.exitcode for one in attempts] == [0, 0]
    assert first == second
    assert any(row["task"] == CONTROL_TASK and row["body"]["changed"].files for row in first)
    deltas = [path for path in (tmp_path / "checkpoint" / "deltas").rglob("*") if path.is_file()]
    assert len(deltas) == 1


def test_the_order_in_which_rows_arrive_does_not_show(tmp_path):
    seed = fresh_seed()
    simulated, epoch = plan_of(Totals, tmp_path, partitions=1)
    positions = list(range(40))
    seen = []
    for _ in range(3):
        random.Random(seed + len(seen)).shuffle(positions)
        batch = totals_batch([at % 5 for at in positions], positions)
        halves = [batch.slice(0, 13), batch.slice(13)]
        seen.append(without_times(StepRun(simulated._plan, epoch, 0, PartitionId(0)).run(halves)))
    assert seen[0] == seen[1] == seen[2]


def test_rows_are_ordered_by_source_then_position(tmp_path):
    simulated, epoch = plan_of(Totals, tmp_path, partitions=1)
    batch = totals_batch([1, 1, 1], [5, 0, 9], ["b", "c", "a"])
    ran = StepRun(simulated._plan, epoch, 0, PartitionId(0)).run([batch])
    (control,) = [decode_control(body) for body in ran.column("body").to_pylist()]
    # Amounts are key + position; a, b, c means 10, 6, 1, and floats are added in that order.
    assert control.changed.inline.values == list(
        oracle(Totals, [("add", (1, 10.0)), ("add", (1, 6.0)), ("add", (1, 1.0))]).state.values()
    )


def test_rows_that_share_a_position_have_one_order_by_their_content(tmp_path):
    seen = []
    simulated, epoch = plan_of(Totals, tmp_path, partitions=1)
    for turn in (1, -1):
        keys = [1, 2, 1, 2][::turn]
        amounts = [0.1, 0.2, 0.3, 0.7][::turn]
        batch = totals_batch(keys, [4] * 4)
        place = batch.schema.get_field_index(feed_column(0, "amount"))
        batch = batch.set_column(place, feed_column(0, "amount"), pa.array(amounts))
        seen.append(without_times(StepRun(simulated._plan, epoch, 0, PartitionId(0)).run([batch])))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("value", [(1, "a"), (), (None,), (1.5, b"x", (1, 2))])
def test_a_tie_is_a_function_of_the_content(value):
    assert content_tie(value) == content_tie(tuple(value))
    assert content_tie(value) != content_tie((*value, 0))


def test_sources_rank_by_name_and_none_comes_first():
    assert source_ranks(pa.array(["b", None, "a", "b"])).tolist() == [1, -1, 0, 1]
    assert source_ranks(pa.array(["x", "x"])).tolist() == [0, 0]
    assert source_ranks(pa.array([None, None], pa.string())).tolist() == [-1, -1]

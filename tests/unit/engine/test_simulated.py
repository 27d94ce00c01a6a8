"""Epochs in one process: restarts, lost local stores, bad rows and failing user code."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from unittest.mock import Mock

import msgspec
import pytest

from millpond import Counter, Map, Partial, Partitioned, Program, each, entry, merged, parquet
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, RowError, StorageError
from millpond.keygroups import Layout
from millpond.sinks.memory import MemorySink
from millpond.storage.backends.files import FileStorage
from tests.programs.keyed import Fraud, Recommender, Store, Totals, Words, committed_state, oracle, random_rows
from tests.sizes import compile_once

Small = Annotated[int, msgspec.Meta(ge=0, le=9)]


class Gates(Program):
    """Raises when told to, at its first and at its second step."""

    seen = Partitioned(Map[int, int])
    sums = Partial(Counter[str])

    @entry
    def knock(self, key: int, number: Small, word: str | None) -> int:
        self.seen[key] = 10 // number
        return self.seen[key]

    @entry
    def pass_by(self, key: int, word: str) -> int:
        before = self.seen.get(key, 0)
        parts = each(self.sums).get(word, 0)
        return 100 // (merged(parts, sum) + before)

    @entry
    def ask(self, word: str) -> int:
        return merged(each(self.sums).get(word, 0), sum)


class Strict(Program):
    """Fails on one instance alone, so that the merge after it would miss an answer."""

    counts = Partial(Map[str, int])

    @entry
    def add(self, key: int, word: str) -> None:
        self.counts[word] = key

    @entry
    def check(self, word: str) -> list[int]:
        return merged(each(self.counts)[word], sorted)


def code_of(call):
    with pytest.raises((RowError, EpochError, StorageError)) as caught:
        call()
    return caught.value.code


def test_a_lost_local_store_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    rows = random_rows(Recommender, 4, 80)
    wanted = oracle(Recommender, rows)
    simulated = Simulated(compile_once(Recommender), tmp_path, partitions=3)
    for at in range(0, 80, 10):
        simulated.epoch(rows[at : at + 10])
        shutil.rmtree(tmp_path / "local-3")
    assert simulated.replies() == wanted.replies
    assert committed_state(tmp_path / "checkpoint") == wanted.state


def test_a_store_that_lags_is_brought_up_or_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 4)
    rows = random_rows(Store, 5, 120)
    wanted = oracle(Store, rows)
    replies = {}
    for turn, at in enumerate(range(0, 120, 4)):
        partitions = 1 if turn % 7 == 0 else 2  # the stores of one lag while the other runs
        simulated = Simulated(compile_once(Store), tmp_path, partitions=partitions)
        simulated.epoch(rows[at : at + 4])
        replies |= simulated.replies()
    assert replies == wanted.replies
    assert committed_state(tmp_path / "checkpoint") == wanted.state


def test_the_driver_that_lost_stops_at_the_fence_and_changes_nothing(tmp_path):
    old = Simulated(compile_once(Totals), tmp_path)
    new = Simulated(compile_once(Totals), tmp_path)
    old.epoch([("add", (1, 1.0))])
    # The new driver opened before that commit: for the world it is the old one now.
    assert code_of(lambda: new.epoch([("add", (1, 5.0))])) == "MP408"
    assert code_of(lambda: new.epoch([("add", (1, 5.0))])) == "MP408"
    old.epoch([("add", (1, 2.0))])
    assert committed_state(tmp_path / "checkpoint") == oracle(Totals, [("add", (1, 1.0)), ("add", (1, 2.0))]).state


def test_a_row_that_raises_names_entry_arguments_and_line_and_commits_nothing(tmp_path):
    simulated = Simulated(compile_once(Gates), tmp_path, partitions=3)
    simulated.epoch([("knock", (1, 5, None))])
    before = committed_state(tmp_path / "checkpoint")
    rows = [("knock", (key, 9 - key, "w" * 200)) for key in range(10)]
    with pytest.raises(RowError) as caught:
        simulated.epoch(rows)
    assert caught.value.code == "MP603"
    text = str(caught.value)
    assert "`knock` raised ZeroDivisionError" in text
    assert "knock(key=9, number=0, word='www" in text
    assert f"{Path(__file__).name}:" in text
    assert "self.seen[key] = 10 // number" in text
    assert committed_state(tmp_path / "checkpoint") == before
    simulated.epoch([("knock", (key, 9 - key, None)) for key in range(9)])
    assert simulated.replies() == {0: 2} | {key + 1: 10 // (9 - key) for key in range(9)}


def test_the_first_row_that_raises_is_told_whatever_the_partitions(tmp_path):
    found = set()
    for partitions in (1, 2, 3, 7):
        simulated = Simulated(compile_once(Gates), tmp_path / str(partitions), partitions=partitions)
        with pytest.raises(RowError) as caught:
            simulated.epoch([("knock", (key, int(key % 4 != 2), None)) for key in range(30)])
        found.add(str(caught.value).split("\n")[1])
    assert len(found) == 1
    assert "key=2," in found.pop()


def test_a_failure_at_a_later_step_names_the_users_line(tmp_path):
    simulated = Simulated(compile_once(Gates), tmp_path, partitions=2)
    with pytest.raises(RowError) as caught:
        simulated.epoch([("pass_by", (3, "w"))])
    assert caught.value.code == "MP603"
    assert "100 // (merged(parts, sum) + before)" in str(caught.value)


def test_a_failure_hides_no_cause_behind_what_it_causes(tmp_path):
    # Instances that lack the word raise and answer nothing: the merge that misses their answers is not to blame.
    simulated = Simulated(compile_once(Strict), tmp_path, partitions=3)
    simulated.epoch([("add", (key, "w")) for key in range(3)])
    with pytest.raises(RowError) as caught:
        simulated.epoch([("check", ("w",))])
    assert caught.value.code == "MP603"
    assert "KeyError" in str(caught.value)


BAD = [
    ("knock", (None, 1, "x")),
    ("knock", (1, None, "x")),
    ("knock", (2, 10, "x")),
    ("knock", (3, -1, None)),
    ("ask", (None,)),
]
GOOD = [("knock", (4, 2, None)), ("ask", ("x",))]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_bad_row_fails_the_epoch_by_default(bad, partitions, tmp_path):
    simulated = Simulated(compile_once(Gates), tmp_path, partitions=partitions)
    with pytest.raises(RowError) as caught:
        simulated.epoch([GOOD[0], bad, GOOD[1]])
    assert caught.value.code == "MP602"
    assert f"`{bad[0]}`" in str(caught.value)
    assert committed_state(tmp_path / "checkpoint") == {}
    simulated.epoch(GOOD)
    assert simulated.replies() == {0: 5, 1: 0}


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_bad_rows_are_skipped_and_counted_once(partitions, tmp_path):
    simulated = Simulated(compile_once(Gates), tmp_path, partitions=partitions, bad_rows=BadRows.SKIP)
    outcome = simulated.epoch([GOOD[0], *BAD, GOOD[1]])
    counters = outcome.manifest.counters
    assert (counters["bad.knock"], counters["bad.ask"]) == (4, 1)
    assert (counters["fed.knock"], counters["fed.ask"]) == (1, 1)
    assert simulated.replies() == {0: 5, 6: 0}
    assert Simulated(compile_once(Gates), tmp_path, partitions=partitions).fed == 7


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_bad_rows_become_dead_letters_with_their_reason_once(partitions, tmp_path):
    simulated = Simulated(compile_once(Gates), tmp_path, partitions=partitions, bad_rows=BadRows.DEAD_LETTER)
    simulated.epoch([GOOD[0], *BAD, GOOD[1]])
    letters = [letter for sink in simulated.dead_letters.values() for letter in sink.rows()]
    assert sorted((letter["feed"], letter["reason"]) for letter in letters) == [
        ("ask", "`word` is null, and it is a required value"),
        ("knock", "`key` is null, and it is the key"),
        ("knock", "`number` is null, and it is a required value"),
        ("knock", "`number` is out of range: at least 0, found -1"),
        ("knock", "`number` is out of range: at most 9, found 10"),
    ]
    assert {letter["row"] for letter in letters} >= {'{"key": 2, "number": 10, "word": "x", "row": 3}'}
    assert simulated.replies() == {0: 5, 6: 0}


def test_an_amount_that_is_no_number_is_out_of_range(tmp_path):
    simulated = Simulated(compile_once(Fraud), tmp_path)
    assert code_of(lambda: simulated.epoch([("pay", ("a", 1, float("nan")))])) == "MP602"
    assert code_of(lambda: simulated.epoch([("pay", ("a", 1, 1000.0))])) == "MP602"


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Places(Program):
    """Rows with a value of the user's own type, over two steps."""

    at = Partitioned(Map[int, int])
    total = Partial(Counter[str])

    @entry
    def move(self, key: int, to: Point) -> int:
        self.at[key] = to.x
        height = to.y
        return merged(each(self.total).get("x", 0), sum) + height


def test_a_parameter_may_be_a_dataclass_in_a_program_of_several_steps(tmp_path):
    simulated = Simulated(compile_once(Places), tmp_path, partitions=2)
    simulated.epoch([("move", (1, Point(2, 3))), ("move", (1, Point(4, 5)))])
    assert simulated.replies() == {0: 3, 1: 5}


def test_state_of_an_element_that_no_entry_point_uses_any_more_survives_a_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)

    class Two(Program):
        kept = Partitioned(Map[int, int])
        used = Partitioned(Map[int, int])

        @entry
        def old(self, key: int) -> None:
            self.kept[key] = 1

        @entry
        def add(self, key: int) -> None:
            self.used[key] = 1

    class One(Program):
        kept = Partitioned(Map[int, int])
        used = Partitioned(Map[int, int])

        @entry
        def old(self, key: int) -> None:
            self.used[key] = 2

        @entry
        def add(self, key: int) -> None:
            self.used[key] = 1

    Simulated(compile_once(Two), tmp_path).epoch([("old", (7,)), ("add", (7,))])
    before = committed_state(tmp_path / "checkpoint")
    simulated = Simulated(compile_once(One), tmp_path)
    for _ in range(4):
        outcome = simulated.epoch([("add", (7,))])
    assert outcome.manifest.snapshot_epoch > 1
    assert committed_state(tmp_path / "checkpoint") == before


def test_replies_in_parquet_are_seen_only_when_their_epoch_is_committed(tmp_path, monkeypatch):
    out = tmp_path / "out"
    simulated = Simulated(compile_once(Words), tmp_path, sinks={"count": parquet(out)})
    simulated.epoch([("add", ("a b a",)), ("count", ("a",))])
    seen = sorted(path.name for path in out.glob("*.parquet"))
    assert len(seen) == 1

    put = FileStorage.put

    def put_no_manifest(self, name, data):
        if name.startswith("manifests/"):
            raise StorageError("MP309", "can't write")
        return put(self, name, data)

    monkeypatch.setattr(FileStorage, "put", put_no_manifest)
    assert code_of(lambda: simulated.epoch([("count", ("b",))])) == "MP309"
    assert sorted(path.name for path in out.glob("*.parquet")) == seen
    assert len(list((out / "_staged").glob("*.parquet"))) == 1


class Hops(Program):
    """Goes on at a key that it finds on its way."""

    places = Partitioned(Map[int, str])
    visits = Partitioned(Counter[str])

    @entry
    def go(self, key: int) -> int:
        self.places[key] = f"place {key}"
        place = self.places[key]
        self.visits[place] += 1
        return self.visits[place]


def test_a_key_that_has_no_group_costs_its_row_and_has_a_code_of_its_own(tmp_path, monkeypatch):
    group_of = Layout.group_of

    def picky(layout, key):
        if key == "place 2":
            raise TypeError(f"no group for {key}")
        return group_of(layout, key)

    monkeypatch.setattr(Layout, "group_of", picky)
    rows = [("go", (key,)) for key in range(4)]
    with pytest.raises(RowError, match="`place` is used as a key of state") as caught:
        Simulated(compile_once(Hops), tmp_path / "fails").epoch(rows)
    assert caught.value.code == "MP227"
    skips = Simulated(compile_once(Hops), tmp_path / "skips", bad_rows=BadRows.SKIP)
    skips.epoch(rows)
    assert skips.replies() == {0: 1, 1: 1, 3: 1}


@pytest.mark.parametrize("others", [False, True])
def test_an_epoch_that_failed_behind_its_commit_is_not_applied_again(tmp_path, monkeypatch, others):
    rows, more = [("add", (1, 1.0)), ("add", (2, 2.0))], [("add", (1, 5.0))]
    simulated = Simulated(compile_once(Totals), tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(MemorySink, "publish", Mock(side_effect=OSError("not now")))
        with pytest.raises(RowError, match="not now"):
            simulated.epoch(rows)
    assert (simulated.batch, simulated.fed) == (1, 2)
    if not others:
        simulated.epoch(rows)
        assert (simulated.batch, simulated.fed) == (1, 2)
        assert list(simulated.replies()) == [0, 1]
    simulated.epoch(more)
    simulated.epoch(more)
    expected = oracle(Totals, [*rows, *more, *more])
    assert committed_state(tmp_path / "checkpoint") == expected.state
    assert simulated.replies() == expected.replies

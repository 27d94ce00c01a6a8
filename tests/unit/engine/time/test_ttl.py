"""State that expires, where it is kept: what stores and snapshots drop, and what another time to live means."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.checkpoint.records.times import Times
from millpond.checkpoint.recovery import last_manifest, read_changes, read_genesis, read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.engine.time import ttl
from millpond.engine.time.ttl import swept_groups
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.local.localstore import LocalStore
from tests.programs.timed import SECOND, START, Alarms, Plain, committed_state, live_state
from tests.sizes import compile_once

GROUPS = 4


def program(**options):
    class Notes(Program):
        notes = Partitioned(Map[int, int], **options)

        @entry
        def put(self, key: int, n: int) -> int:
            before = self.notes.get(key, -1)
            self.notes[key] = n
            return before

        @entry
        def look(self, key: int) -> int:
            return self.notes.get(key, -1)

    return compile_once(Notes)


TEN = program(ttl=timedelta(seconds=10))


def at(second):
    return epoch_time(START + second * SECOND)


def head_of(simulated):
    return last_manifest(simulated.storage, read_genesis(simulated.storage)[1])[0]


def stored(folder):
    """How many entries the local stores hold, all together."""
    found = 0
    for path in sorted(folder.glob("local-*/*/*")):
        with LocalStore.at(path).view() as view:
            found += sum(1 for _ in view.scan(b"\x00"))
    return found


@pytest.mark.slow
def test_stores_drop_what_is_over_group_by_group_and_answers_stay(tmp_path, monkeypatch):
    swept = Simulated(TEN, tmp_path / "swept", 2, key_groups=GROUPS)
    with at(0):
        swept.epoch([("put", (key, key)) for key in range(40)])
    with at(12):
        swept.epoch([("look", (0,))])
    assert stored(tmp_path / "swept") == 40, "over since now, not since the parent"
    for second in range(13, 13 + GROUPS):
        with at(second):
            swept.epoch([("look", (key,)) for key in range(3)])
    with at(20):
        swept.epoch([])
    assert stored(tmp_path / "swept") == 0
    assert set(swept.replies().values()) == {-1}
    with monkeypatch.context() as patch:
        patch.setattr(ttl, "find_over", lambda *_: [])
        kept = Simulated(TEN, tmp_path / "kept", 2, key_groups=GROUPS)
        with at(0):
            kept.epoch([("put", (key, key)) for key in range(40)])
        for second in range(12, 21):
            with at(second):
                kept.epoch([("look", (key,)) for key in range(3)])
    assert stored(tmp_path / "kept") > 30
    assert set(kept.replies().values()) == {-1}


@pytest.mark.slow
def test_a_sweep_changes_no_byte_of_what_is_written(tmp_path, monkeypatch):
    def run(folder):
        simulated = Simulated(TEN, folder, 2, key_groups=GROUPS)
        for second in range(0, 60, 4):
            with at(second):
                simulated.epoch([("put", (second % 7, second)), ("look", (second % 5,)), ("put", (second, 1))])
        return [sorted(state.file.sha256 for state in delta.files) for delta in head_of(simulated).deltas]

    with_sweeps = run(tmp_path / "a")
    monkeypatch.setattr(ttl, "find_over", lambda *_: [])
    assert run(tmp_path / "b") == with_sweeps


@pytest.mark.slow
def test_a_restored_store_writes_what_an_advanced_one_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)

    def run(folder, partitions):
        for number, second in enumerate(range(0, 60, 4)):
            # Another number of partitions has stores of its own, which must be restored from snapshots.
            simulated = Simulated(TEN, folder, partitions[number % len(partitions)], key_groups=GROUPS)
            with at(second):
                simulated.epoch([("put", (second % 7, second)), ("look", (second % 5,)), ("put", (second, 1))])
        return [sorted(state.file.sha256 for state in delta.files) for delta in head_of(simulated).deltas]

    assert run(tmp_path / "a", [1, 1]) == run(tmp_path / "b", [1, 2, 3, 4])


def test_snapshots_leave_out_what_is_over_also_where_nothing_else_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    simulated = Simulated(TEN, tmp_path, 1, key_groups=GROUPS)
    with at(0):
        simulated.epoch([("put", (key, 1)) for key in range(50)])
    for second in (2, 4, 6, 20, 22, 24, 26):
        with at(second):
            simulated.epoch([("put", (1000, 1))])
    head = head_of(simulated)
    assert head.snapshot
    held = [key for state in head.snapshot for key in read_changes(simulated.storage, state)[0]]
    assert len(held) <= 1
    assert len(read_state(simulated.storage)) == 1


def test_a_longer_time_to_live_does_not_bring_back_what_is_over(tmp_path):
    longer = program(ttl=timedelta(seconds=100), refresh="access")
    for sweeps in (True, False):
        folder = tmp_path / str(sweeps)
        with pytest.MonkeyPatch.context() as patch:
            if not sweeps:
                patch.setattr(ttl, "find_over", lambda *_: [])
            first = Simulated(TEN, folder, 1, key_groups=1)
            for second, key in ((0, 1), (6, 2), (12, 3), (13, 4)):
                with at(second):
                    first.epoch([("put", (key, key))])
            second_run = Simulated(longer, folder, 1, key_groups=1)
            with at(14):
                second_run.epoch([("look", (key,)) for key in (1, 2, 3, 4)])
        assert second_run.replies() == {4: -1, 5: 2, 6: 3, 7: 4}
        shorter = Simulated(program(ttl=timedelta(seconds=1)), folder, 1, key_groups=1)
        with at(16):
            shorter.epoch([("look", (key,)) for key in (2, 3, 4)])
        assert set(shorter.replies().values()) == {-1}


@pytest.mark.parametrize("first", [{}, {"ttl": timedelta(seconds=10)}])
def test_a_time_to_live_is_not_added_to_a_checkpoint_nor_taken_away_without_being_told(tmp_path, first):
    other = {} if first else {"ttl": timedelta(seconds=10)}
    with at(0):
        Simulated(program(**first), tmp_path, 1, key_groups=1).epoch([("put", (1, 1))])
    with at(1), pytest.raises(MillpondError):
        Simulated(program(**other), tmp_path, 1, key_groups=1).epoch([("put", (1, 1))])


def test_times_go_on_even_if_the_clock_goes_back(tmp_path):
    simulated = Simulated(TEN, tmp_path, 1, key_groups=1)
    with at(20):
        simulated.epoch([("put", (1, 1))])
    with at(5):
        simulated.epoch([("put", (2, 2))])
    assert head_of(simulated).times.now_us == START + 20 * SECOND + 1


def test_a_tick_without_timers_comes_once_a_time_to_live_is_over(tmp_path):
    simulated = Simulated(TEN, tmp_path, 1, key_groups=1)
    with at(0):
        assert simulated.tick() is None
        simulated.epoch([("put", (1, 1))])
    with at(9):
        assert simulated.tick() is None
    with at(10):
        assert simulated.tick() is not None
    with at(60):
        assert simulated.tick() is None, "there is nothing left that could be over"
    assert live_state(simulated.storage) == {}


def test_what_was_over_is_read_from_the_very_parent(tmp_path):
    simulated = Simulated(TEN, tmp_path, 1, key_groups=1)
    with at(0):
        simulated.epoch([("put", (1, 1))])
    plan, parent = simulated._plan, simulated._checkpoint.parent
    assert ttl.over_at(plan, parent) == {0: START - 10 * SECOND}
    assert ttl.over_at(plan, msgspec.structs.replace(parent, epoch=0)) == {}
    with pytest.raises(MillpondError) as caught:
        ttl.over_at(plan, msgspec.structs.replace(parent, hash="0" * 64))
    assert caught.value.code == "MP460"


def test_all_groups_of_a_partition_are_swept_in_turn():
    assert {group for epoch in range(5) for group in swept_groups(range(10, 15), epoch)} == set(range(10, 15))
    assert list(swept_groups(range(0), 3)) == []


def test_programs_without_time_note_none(tmp_path):
    simulated = Simulated(program(), tmp_path, 1, key_groups=1)
    with at(0):
        simulated.epoch([("put", (1, 1))])
    assert head_of(simulated).times == Times()
    assert simulated.tick() is None


@pytest.mark.slow
def test_many_timers_in_files_by_their_owners(tmp_path, monkeypatch):
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 100)
    rows = [("touch", (f"key-{number}", number % 7)) for number in range(200)]
    plain = Plain(Alarms)
    simulated = Simulated(compile_once(Alarms), tmp_path, 4, key_groups=16)
    for second in (0, 3, 9):
        plain.epoch(START + second * SECOND, rows if not second else [])
        with at(second):
            simulated.epoch(rows if not second else [])
    assert committed_state(Alarms, simulated.storage) == plain.state()

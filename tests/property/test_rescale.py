"""Another number of instances of partial state: every kind and policy against a model, and what comes after."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.upkeep import rescale
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from tests.programs.keyed import committed_state
from tests.property.rescaled import (
    COMPILED,
    KEY_GROUPS,
    MERGES,
    POLICIES,
    WORDS,
    contents_of,
    load,
    random_row,
    random_rows,
)
from tests.sizes import some_of

NUMBERS = st.integers(1, KEY_GROUPS)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Snapshots at every third epoch, some deltas in files of their own, and a rescale in files of some entries."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 120)
    monkeypatch.setattr(rescale, "CHUNK_BYTES", 200)


def heirs(old, before, after):
    """Which instances take over from one, told by where ranges begin: the definition, in fractions of the whole."""
    if after > before:
        return [new for new in range(after) if old * after <= new * before < (old + 1) * after]
    return [new for new in range(after) if new * before <= old * after < (new + 1) * before]


def cells(held):
    """The cells of matrices by line and place."""
    return [{(line, at): n for line, line_of in entries.items() for at, n in line_of.items()} for entries in held]


def model_merge(name, group):
    """What several instances become."""
    merge = MERGES[name]
    if name in ("seen", "log"):
        kind = set if name == "seen" else list
        merged = merge(
            [kind(entries) if name == "seen" else [entries[n] for n in sorted(entries)] for entries in group]
        )
        return dict.fromkeys(merged) if name == "seen" else dict(enumerate(merged))
    units = {unit for entries in group for unit in entries}
    missing = None if name in ("best", "last") else 0
    return {unit: merge([entries.get(unit, missing) for entries in group]) for unit in units}


def check_shrunk(name, before, after):
    for new, found in enumerate(after):
        group = [entries for old, entries in enumerate(before) if new in heirs(old, len(before), len(after))]
        assert group, "an instance that nobody merged into"
        assert found == (group[0] if len(group) == 1 else model_merge(name, group)), name


def check_grown(name, before, after):
    for old, entries in enumerate(before):
        own = heirs(old, len(before), len(after))
        assert own, "an instance that nobody takes over from"
        found = [after[new] for new in own]
        match POLICIES[name]:
            case "empty":
                assert found == [entries, *({} for _ in own[1:])], name
            case "copy":
                assert found == [entries for _ in own], name
            case "split" if name == "log":
                assert [item for part in found for _, item in sorted(part.items())] == list(entries.values())
                lengths = [len(part) for part in found]
                assert [sorted(part) for part in found] == [list(range(length)) for length in lengths]
                assert max(lengths) - min(lengths) <= 1
            case "split":
                assert sum(map(len, found)) == len(entries), "an entry is lost, or in two places"
                assert {unit: value for part in found for unit, value in part.items()} == entries


def check_rescaled(state_before, instances_before, state_after, instances_after):
    before, after = contents_of(state_before, instances_before), contents_of(state_after, instances_after)
    for name in before:
        held, now = before[name], after[name]
        if name == "pairs" and instances_after < instances_before:
            held, now = cells(held), cells(now)
        check = check_grown if instances_after > instances_before else check_shrunk
        check(name, held, now)
    partial = {index for index, name in enumerate(POLICIES) if name in before}
    kept = [{key: value for key, value in s.items() if key[0] not in partial} for s in (state_before, state_after)]
    assert kept[0] == kept[1], "partitioned state was touched"


def run_and_compare(simulated, sequential, rows):
    """Run an epoch on both; replies and state must be equal."""
    first = simulated.fed
    simulated.epoch(rows)
    said = simulated.replies()
    wanted = sequential.epoch(rows)
    assert [said[first + at] for at in range(len(rows))] == wanted


@pytest.mark.slow
@settings(max_examples=some_of(25))
@given(
    st.integers(0, 2**32),
    NUMBERS,
    st.lists(st.tuples(NUMBERS, st.integers(1, KEY_GROUPS), st.integers(0, 25)), min_size=1, max_size=4),
)
def test_every_change_of_the_number_is_that_of_the_model_and_records_go_on_with_the_new_one(seed, first, turns):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        now = first
        simulated = Simulated(COMPILED, folder, 3, KEY_GROUPS, first)
        run_and_compare(simulated, load({}, first), [random_row(rng) for _ in range(40)])
        for instances, partitions, count in turns:
            before = committed_state(folder / "checkpoint")
            simulated = Simulated(COMPILED, folder, partitions, instances=instances)
            after = committed_state(folder / "checkpoint")
            if instances == now:
                assert after == before
            else:
                check_rescaled(before, now, after, instances)
            now = instances
            sequential = load(after, now)
            if count:
                run_and_compare(simulated, sequential, [random_row(rng) for _ in range(count)])
            assert committed_state(folder / "checkpoint") == sequential.state()


def sums_of(simulated):
    questions = [(name, (word,)) for name in ("counted", "parted") for word in WORDS]
    first = simulated.fed
    simulated.epoch(questions)
    said = simulated.replies()
    return [said[first + at] for at in range(len(questions))]


@pytest.mark.slow
@settings(max_examples=some_of(10))
@given(st.integers(0, 2**32), st.lists(NUMBERS, min_size=2, max_size=4))
def test_sums_read_through_merged_stay_as_they_were(seed, numbers):
    with tempfile.TemporaryDirectory() as name:
        simulated = Simulated(COMPILED, Path(name), 2, KEY_GROUPS, numbers[0])
        simulated.epoch(random_rows(seed, 60))
        wanted = sums_of(simulated)
        assert any(wanted)
        for instances in numbers[1:]:
            simulated = Simulated(COMPILED, Path(name), 2, instances=instances)
            assert sums_of(simulated) == wanted


def test_shares_of_shares_are_split_again(tmp_path):
    """Splitting once more must divide a share, and not leave it whole because all of it has one hash."""
    rows = [("part", (f"word {n}", 1)) for n in range(600)]
    Simulated(COMPILED, tmp_path, 2, 64, 1).epoch(rows)
    for instances in (2, 4, 8, 16):
        Simulated(COMPILED, tmp_path, 2, instances=instances)
        held = contents_of(committed_state(tmp_path / "checkpoint"), instances, 64)["parts"]
        sizes = [len(entries) for entries in held]
        assert sum(sizes) == 600
        assert min(sizes) > 600 / instances / 2, sizes


def test_local_stores_of_another_number_are_not_taken_for_ones_of_this(tmp_path):
    """Partitions end where instances end: with another number the same partition owns other key groups."""
    rows = [("add", (f"word {n}", 1)) for n in range(60)]
    for turn, instances in enumerate((4, 3, 4, 12, 4), start=1):
        simulated = Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, instances)
        simulated.epoch(rows)
        assert set(simulated.replies().values()) == {turn}
        # A store is brought up to the rows only by the epoch after them.
        simulated.epoch([("add", (f"other {n}", 1)) for n in range(60)])


def test_the_number_stays_when_nobody_names_one(tmp_path):
    Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 3).epoch(random_rows(1, 20))
    Simulated(COMPILED, tmp_path, 2, instances=7)
    simulated = Simulated(COMPILED, tmp_path, 2)
    assert simulated.epoch(random_rows(2, 20)).manifest.instances == 7
    before = committed_state(tmp_path / "checkpoint")
    assert Simulated(COMPILED, tmp_path, 5, instances=7).epoch([]).manifest.epoch == 4
    assert committed_state(tmp_path / "checkpoint") == before


def test_counters_go_on_over_a_rescale_and_count_its_entries(tmp_path):
    simulated = Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4)
    simulated.epoch(random_rows(5, 50))
    for instances in (9, 2, 4):
        simulated = Simulated(COMPILED, tmp_path, 2, instances=instances)
        assert simulated.fed == 50
        entries = simulated.epoch([]).manifest.counters["total.entries"]
        assert entries == len(committed_state(tmp_path / "checkpoint"))


def test_a_multiple_with_empty_instances_moves_nothing(tmp_path):
    """New instances begin empty, and the old ones stay where they are: nothing is read nor written."""
    from millpond.compiler.compile import compile_program
    from tests.programs.keyed import Words

    compiled = compile_program(Words)
    Simulated(compiled, tmp_path, 2, 16, 4).epoch([("add", ("a b c",)), ("add", ("d e",))])
    before = committed_state(tmp_path / "checkpoint")
    manifest = Simulated(compiled, tmp_path, 2, instances=8).epoch([]).manifest
    assert [delta.files for delta in manifest.deltas][1] == ()
    assert committed_state(tmp_path / "checkpoint") == before

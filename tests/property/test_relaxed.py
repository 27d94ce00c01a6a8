"""Relaxed programs give what some order of their source gives that changes rows at moves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.epochs.recovery import read_state
from millpond.errors import ProgramError
from millpond.runtime.sequential import Sequential
from millpond.runtime.simulated import Simulated
from millpond.state.storekey import element_of, unit_of
from millpond.storage.files import FileStorage
from millpond.testing.loading import loaded, temporary_folder
from tests.property.relaxed_oracle import Relaxed, Row, TooManyError, shown
from tests.property.relaxed_programs import Maker

PROGRAMS = 100
IN_A_CAMPAIGN = 5_000
CHUNK = 25


def result(compiled: CompiledProgram, replies: list[Any], held: dict[bytes, bytes]) -> str:
    entries: dict[str, dict[Any, Any]] = {name: {} for name in compiled.elements}
    for key, value in held.items():
        name = list(compiled.elements)[element_of(key)]
        kind = compiled.elements[name].type
        entries[name][kind.keys.decode(unit_of(key))] = kind.values.decode(value)
    return shown(replies, entries)


def simulated(compiled: CompiledProgram, rows: list[Row], partitions: int, steps: int, folder: Path) -> str:
    run = Simulated(compiled, folder, partitions=partitions, key_groups=16, steps_max=steps)
    run.epoch(rows)
    replies = [reply for _, reply in sorted(run.replies().items())]
    return result(compiled, replies, dict(read_state(FileStorage(folder / "checkpoint"))))


def check(seed: int) -> bool:
    """Run one program all ways; whether it was accepted, and small enough to look at all its orders."""
    text, rows = Maker(seed).made()
    with loaded(text) as program:
        try:
            compiled = compile_program(program)
        except ProgramError:
            return False
        try:
            allowed = Relaxed(program, rows).allowed()
        except TooManyError:
            return False
        reference = Sequential(compiled)
        replies = reference.epoch(rows)
        found = {"in sequence": result(compiled, replies, reference.state())}
        with temporary_folder() as folder:
            partitions, steps = 1 + seed % 7, 1 + seed % 5
            found[f"{partitions} partitions"] = simulated(compiled, rows, partitions, steps, folder)
    for way, one in found.items():
        assert one in allowed, f"seed {seed}, {way}: {one}\nrows {rows}\n{text}"
    return True


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_generated_programs_interleave_at_moves_alone(first):
    looked_at = sum(check(seed) for seed in range(first, first + CHUNK))
    assert looked_at > CHUNK // 2


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(PROGRAMS, IN_A_CAMPAIGN, 250))
def test_many_generated_programs_interleave_at_moves_alone(first):
    assert sum(check(seed) for seed in range(first, first + 250))

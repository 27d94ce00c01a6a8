"""Relaxed programs give what some order of their source gives that changes rows at moves alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import ProgramError
from millpond.state.local.storekey import element_of, unit_of
from millpond.storage.backends.files import FileStorage
from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.loading import loaded, temporary_folder
from tests.property.relaxed_oracle import Relaxed, Row, TooManyError, shown
from tests.property.relaxed_programs import Maker
from tests.sizes import some_of

PROGRAMS = some_of(100)
CHUNK = 10


def result(compiled: CompiledProgram, replies: list[Any], held: dict[bytes, bytes]) -> str:
    entries: dict[str, dict[Any, Any]] = {name: {} for name in compiled.elements}
    for key, value in held.items():
        name = list(compiled.elements)[element_of(key)]
        kind = compiled.elements[name].type
        entries[name][kind.keys.decode(unit_of(key))] = kind.values.decode(value)
    return shown(replies, entries)


def simulated(compiled: CompiledProgram, rows: Sequence[Row], partitions: int, steps: int, folder: Path) -> str:
    run = Simulated(compiled, folder, partitions=partitions, key_groups=16, steps_max=steps)
    run.epoch(rows)
    replies = [reply for _, reply in sorted(run.replies().items())]
    return result(compiled, replies, dict(read_state(FileStorage(folder / "checkpoint"))))


def compare(text: str, rows: Sequence[Row], seed: int) -> Outcome:
    """Run one program all ways; each must give what some order of its source gives."""
    with loaded(text) as program:
        try:
            compiled = compile_program(program)
        except ProgramError as refused:
            return Outcome(Verdict.REFUSED, refused.code, found=str(refused))
        try:
            allowed = Relaxed(program, rows).allowed()
        except TooManyError:
            return Outcome(Verdict.SAME, "not looked at", "too many orders")
        reference = Sequential(compiled)
        replies = reference.epoch(rows)
        found = {"in sequence": result(compiled, replies, reference.state())}
        with temporary_folder() as folder:
            partitions, steps = 1 + seed % 7, 1 + seed % 5
            found[f"{partitions} partitions"] = simulated(compiled, rows, partitions, steps, folder)
    for way, one in found.items():
        if one not in allowed:
            return Outcome(Verdict.MISMATCH, what=f"relaxed, {way.split()[-1]}", expected=shortly(allowed), found=one)
    return Outcome(Verdict.SAME, rows=len(rows))


def shortly(allowed: set[str]) -> str:
    return f"one of {len(allowed)}: {min(allowed, key=len)}"


def check(seed: int) -> bool:
    """Run a program out of a number; whether it was accepted, and small enough to look at all its orders."""
    text, rows = Maker(seed).made()
    outcome = compare(text, rows, seed)
    assert not outcome.failed, f"seed {seed}, {outcome.what}: {outcome.found}\nrows {rows}\n{text}"
    return outcome.verdict is Verdict.SAME and not outcome.code


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_generated_programs_interleave_at_moves_alone(first):
    looked_at = sum(check(seed) for seed in range(first, first + CHUNK))
    assert looked_at > CHUNK // 2

"""A read of a key that was not foreseen is found like a write is, and never answered with the default."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millpond import Counter, Map, Matrix, Partitioned, Program, Set, entry
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError


class Shop(Program):
    """Keys of `go` are found by a slice of the method; `kind` says which of them it reads, and how."""

    a = Partitioned(Map[int, int])
    count = Partitioned(Counter[int])
    seen = Partitioned(Set[int])
    grid = Partitioned(Matrix[int, int, int])
    aged = Partitioned(Map[int, int], ttl=timedelta(days=1))

    @entry
    def go(self, kind: str, x: int, xs: list[int]) -> int:
        for i in xs:
            self.a[i] = self.a.get(i, 0) + 1
            self.count[i] += 1
            self.seen.add(i)
            self.grid[i, 0] += 1
            self.aged[i] = i
        if kind == "get":
            return self.a.get(x, 0)
        if kind == "item":
            return self.a[x]
        if kind == "in":
            return int(x in self.a)
        if kind == "pop":
            return self.a.pop(x, 0)
        if kind == "count":
            return self.count[x]
        if kind == "seen":
            return int(x in self.seen)
        if kind == "cell":
            return self.grid[x, 0]
        if kind == "aged":
            return self.aged.get(x, 0)
        if kind == "caught":
            try:
                return self.a[x]
            except Exception:  # noqa: BLE001 - what a program may do
                return -1
        return 0


def forgetful(compiled: CompiledProgram) -> CompiledProgram:
    """The program with a survey that misses the key `x`, as a fault of the compiler would."""
    whole = compiled.entries["go"]
    task = whole.tasks[0]
    assert task.keys is not None
    names = ("a", "count", "seen", "grid", "aged")

    def survey(out: list[Any], kind: list[str], x: list[int], xs: list[list[int]]) -> None:
        for _, _, keys in zip(kind, x, xs, strict=True):
            out.append([(name, key) for key in keys for name in names])

    assert task.keys.function is not None
    keys = dataclasses.replace(task.keys, function=survey)
    tasks = (dataclasses.replace(task, keys=keys),)
    return dataclasses.replace(compiled, entries={"go": dataclasses.replace(whole, tasks=tasks)})


KINDS = ("get", "item", "in", "pop", "count", "seen", "cell", "aged", "caught")


@pytest.mark.parametrize("policy", [BadRows.FAIL, BadRows.SKIP])
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_was_not_foreseen_stops_the_epoch(kind: str, policy: BadRows, tmp_path: Path):
    run = Simulated(forgetful(compile_program(Shop)), tmp_path, partitions=3, bad_rows=policy)
    run.epoch([("go", ("", 1, [1, 2]))])
    with pytest.raises(EpochError) as found:
        run.epoch([("go", (kind, 3, [1]))])
    assert found.value.code == "MP440"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_was_foreseen_reads_as_in_plain_python(kind: str, tmp_path: Path):
    plain = Shop()
    rows = [("go", ("", 1, [1, 2])), ("go", (kind, 2, [1]))]
    run = Simulated(compile_program(Shop), tmp_path, partitions=3)
    run.epoch(rows)
    assert [reply for _, reply in sorted(run.replies().items())] == [plain.go(*args) for _, args in rows]

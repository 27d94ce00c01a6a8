"""A transactional program on many partitions and in many epochs, held against the truth: replies, refusals, bytes."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from millpond.checkpoint.recovery import read_state
from millpond.compiler import CompiledProgram
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Fed, Simulated
from millpond.errors import RowError
from millpond.graph.model import Dispatch
from millpond.keygroups import Layout
from millpond.program import ProgramBase
from millpond.sinks.memory import MemorySink
from millpond.storage.backends.files import FileStorage
from tests.fuzz.compare import INSTANCES, KEY_GROUPS, PARTITIONS, Cuts, Outcome, Verdict, with_compiled
from tests.fuzz.dice import Dice, derive
from tests.fuzz.loading import temporary_folder
from tests.fuzz.rows import Row
from tests.fuzz.transactions.truth import Truth, UndoneError, truth_of

RUNS: Final = 2
"""Of every case: one with all rows in one epoch, the others with random cuts."""


@dataclass(frozen=True, slots=True)
class Told(Outcome):
    """A comparison that found nothing, and what it was about: gathered entry points, and rows that were refused."""

    gathered: int = 0
    aborted: int = 0


def compare(text: str, rows: Sequence[Row], seed: int) -> Outcome:
    """Run a program both ways over rows; the seed chooses epochs, partitions, policies and the order of arrival."""
    return with_compiled(text, lambda program, compiled: compare_program(program, compiled, rows, seed))


def compare_program(program: type[ProgramBase], compiled: CompiledProgram, rows: Sequence[Row], seed: int) -> Outcome:
    """Compare a program that is compiled already."""
    layout = Layout(KEY_GROUPS, 1, INSTANCES, compiled.has_partial)
    try:
        truth = truth_of(program, rows, layout)
    except UndoneError as error:
        return Outcome(Verdict.MISMATCH, what="undoing in plain Python", expected="no trace", found=str(error))
    for number in range(RUNS):
        wrong = _run(compiled, truth, derive(seed, number), whole=number == 0)
        if wrong is not None:
            return wrong
    if truth.raised:
        wrong = _fail(compiled, truth, derive(seed, "fail"))
        if wrong is not None:
            return wrong
    gathered = sum(entry.tasks[0].dispatch is Dispatch.GATHERED for entry in compiled.entries.values())
    return Told(
        Verdict.SAME, rows=len(truth.rows), raised=len(truth.raised), gathered=gathered, aborted=len(truth.aborted)
    )


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-3000:]


class Shuffled(Simulated):
    """Rows arrive at their partitions in an order of no meaning, which the seed tells."""

    seed = 0

    def _route(self, fed: Fed) -> list[pa.RecordBatch]:
        dice = Dice(self.seed + len(fed.rows))
        batches = super()._route(fed)
        return [batch.take(pa.array(dice.shuffled(range(batch.num_rows)), pa.int64())) for batch in batches]

    @classmethod
    def of(cls, compiled: CompiledProgram, folder: Path, partitions: int, policy: BadRows, seed: int) -> Shuffled:
        """A run on a folder, which may have begun on another number of partitions."""
        made = cls(compiled, folder, partitions, KEY_GROUPS, INSTANCES, bad_rows=policy)
        made.seed = seed
        return made


def _run(compiled: CompiledProgram, truth: Truth, seed: int, *, whole: bool) -> Outcome | None:
    dice = Dice(seed)
    cuts = Cuts((len(truth.rows),), (dice.one(PARTITIONS),)) if whole else Cuts.random(seed, len(truth.rows))
    policy = dice.one((BadRows.SKIP, BadRows.DEAD_LETTER)) if truth.raised else BadRows.FAIL
    found = _Found()
    with temporary_folder() as folder:
        start = 0
        for size, partitions in zip(cuts.sizes, cuts.partitions, strict=True):
            try:
                run = Shuffled.of(compiled, folder, partitions, policy, seed)
                counters = run.epoch(truth.rows[start : start + size]).manifest.counters
            except Exception as error:  # noqa: BLE001
                return Outcome(Verdict.MISMATCH, what="the run fails", expected="no failure", found=_told(error))
            found.take(compiled, run)
            start += size
        state = read_state(FileStorage(folder / "checkpoint"))
    bad = sum(count for name, count in counters.items() if name.startswith("total.bad."))
    letters = sorted(truth.raised.values()) if policy is BadRows.DEAD_LETTER else []
    return (
        _different("replies", truth.replies, found.replies)
        or _different("refusals", truth.aborted, found.aborted)
        or _different("state", _shown(compiled, truth.state), _shown(compiled, state))
        or _different("rows that are left out", {"rows": len(truth.raised)}, {"rows": bad})
        or _different("dead letters", dict(enumerate(letters)), dict(enumerate(sorted(found.letters))))
    )


class _Found:
    """What a run has told, over several objects that ran it."""

    def __init__(self) -> None:
        self.replies: dict[int, str] = {}
        self.aborted: dict[int, str] = {}
        self.letters: list[str] = []

    def take(self, compiled: CompiledProgram, run: Simulated) -> None:
        """Take the replies, refusals and dead letters of an epoch."""
        for name, sink in run.sinks.items():
            assert isinstance(sink, MemorySink)
            for row in sink.rows():
                number = row["row"]
                if row.get("aborted") is not None:
                    assert row.get("reply") is None, "a refused row has no reply"
                    self.aborted[number] = row["aborted"]
                elif compiled.entries[name].point.replies:
                    assert number not in self.replies, "a reply is there twice"
                    self.replies[number] = repr(row["reply"])
        for sink in run.dead_letters.values():
            self.letters += [_exception_in(row["reason"]) for row in sink.rows()]


def _exception_in(reason: str) -> str:
    return reason.partition(" raised ")[2].partition(":")[0]


def _shown(compiled: CompiledProgram, state: Mapping[bytes, bytes]) -> dict[str, str]:
    """A state as text that a person can read, and that has every byte of it."""
    return dict(_entries(compiled, state))


def _entries(compiled: CompiledProgram, state: Mapping[bytes, bytes]) -> Iterator[tuple[str, str]]:
    kinds = [(name, element.type) for name, element in compiled.elements.items()]
    for key, value in state.items():
        name, kind = kinds[key[0]]
        unit = kind.keys.decode(key[3:])
        yield f"{name}[{unit!r}] {key.hex()}", f"{kind.values.decode(value)!r} {value.hex()}"


def _different(what: str, expected: Mapping[Any, Any], found: Mapping[Any, Any]) -> Outcome | None:
    keys = sorted((key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)), key=str)
    if not keys:
        return None
    left = {key: expected.get(key, "nothing") for key in keys[:5]}
    right = {key: found.get(key, "nothing") for key in keys[:5]}
    return Outcome(Verdict.MISMATCH, what=what, expected=str(left), found=str(right))


def _fail(compiled: CompiledProgram, truth: Truth, seed: int) -> Outcome | None:
    """Under the policy that fails, a row that raises ends its epoch, which leaves nothing behind.

    Of several such rows an epoch tells one of the first step that has any, so there is only one here: the last.
    """
    first = min(truth.raised)
    dice = Dice(seed)
    before = dice.between(0, first)
    wanted = f"raised {truth.raised[first]}"
    what = f"failure of {truth.rows[first]}"
    with temporary_folder() as folder:
        run = Shuffled.of(compiled, folder, dice.one(PARTITIONS), BadRows.FAIL, seed)
        run.epoch(truth.rows[:before])
        kept = read_state(run.storage)
        try:
            run.epoch(truth.rows[before : first + 1])
        except RowError as found:
            if wanted not in found.summary:
                return Outcome(Verdict.MISMATCH, what=what, expected=wanted, found=found.summary)
        except Exception as found:  # noqa: BLE001
            return Outcome(Verdict.MISMATCH, what=what, expected=wanted, found=_told(found))
        else:
            return Outcome(Verdict.MISMATCH, what=what, expected=wanted, found="no failure")
        if read_state(run.storage) != kept:
            return Outcome(Verdict.MISMATCH, what=f"state after the {what}", expected="unchanged", found="changed")
    return None

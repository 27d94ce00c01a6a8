"""One program, run as plain Python and as a compiled graph on many partitions: the same replies, the same state."""

from __future__ import annotations

import enum
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from millpond.checkpoint.recovery import read_state
from millpond.compiler import CompiledProgram, compile_program
from millpond.compiler.compiled import CompiledTask
from millpond.engine.plan import STEPS_MAX
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Fed, Simulated
from millpond.engine.task.spill import ROW_BYTES
from millpond.errors import MillpondError, ProgramError, RowError
from millpond.ids import InstanceId
from millpond.keygroups import Layout
from millpond.program import EntryPoint, ProgramBase
from millpond.storage.backends.files import FileStorage
from tests.fuzz.dice import Dice
from tests.fuzz.loading import loaded, temporary_folder
from tests.fuzz.oracle import UnfitError, call, committed_state, expect, plain_state, refusal, shown
from tests.fuzz.rows import Row

KEY_GROUPS: Final = 16
INSTANCES: Final = 4
PARTITIONS: Final = (1, 2, 3, 7)
EPOCHS_MAX: Final = 3
OTHER_OWNERS: Final = 0.5
"""How likely any partition may own any key group in an epoch."""

PORTION_ROWS_MAX: Final = 12
"""So many rows a task holds at once at most, about; 0 for all of them."""


class Verdict(enum.Enum):
    """How a comparison ended."""

    SAME = "same"
    REFUSED = "refused"
    MISMATCH = "mismatch"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A comparison's end: the code of a refusal, or what differs, as texts."""

    verdict: Verdict
    code: str = ""
    what: str = ""
    expected: str = ""
    found: str = ""
    rows: int = 0
    raised: int = 0

    @property
    def failed(self) -> bool:
        """Whether the compiler or the runtime did something wrong."""
        return self.verdict in (Verdict.MISMATCH, Verdict.CRASH)


@dataclass(frozen=True, slots=True)
class Cuts:
    """How rows become epochs: the size of each, and on how many partitions it runs."""

    sizes: tuple[int, ...]
    partitions: tuple[int, ...]

    @classmethod
    def random(cls, seed: int, rows: int) -> Cuts:
        """Random cuts; the last epoch takes what is left."""
        dice = Dice(seed)
        count = dice.between(1, EPOCHS_MAX)
        ends = sorted(dice.between(0, rows) for _ in range(count - 1))
        sizes = tuple(end - start for start, end in zip([0, *ends], [*ends, rows], strict=True))
        same = dice.one(PARTITIONS)
        partitions = tuple(same if dice.chance(0.6) else dice.one(PARTITIONS) for _ in sizes)
        return cls(sizes, partitions)


def compare(text: str, rows: Sequence[Row], seed: int) -> Outcome:
    """Run a program both ways over rows; the seed chooses epochs, partitions and the order of arrival."""

    def run(program: type[ProgramBase], compiled: CompiledProgram) -> Outcome:
        if compiled.graph.relaxed:
            return run_relaxed(program, compiled, rows, seed)
        return _run(program, compiled, rows, seed)

    return with_compiled(text, run)


def with_compiled(text: str, run: Callable[[type[ProgramBase], CompiledProgram], Outcome]) -> Outcome:
    """Compile the text of a program, and run it; or tell how it was refused, or how the compiler failed."""
    with warnings.catch_warnings(), loaded(text) as program:
        # A program that is being made smaller may call a number.
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            compiled = compile_program(program)
        except ProgramError as refused:
            if not refused.code.startswith("MP1") or not refused.places:
                return Outcome(Verdict.CRASH, refused.code, "a refusal without a code or a place", found=str(refused))
            return Outcome(Verdict.REFUSED, refused.code, found=str(refused))
        except Exception as error:  # noqa: BLE001
            return Outcome(Verdict.CRASH, type(error).__name__, "the compiler failed", found=_told(error))
        return run(program, compiled)


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-3000:]


def run_relaxed(program: type[ProgramBase], compiled: CompiledProgram, rows: Sequence[Row], seed: int) -> Outcome:
    """Compare with the reference interpreter of steps; rows by themselves must give what plain Python gives."""
    expected = expect(program, rows)
    points = program.entries()
    try:
        alone = Sequential(compiled, KEY_GROUPS, INSTANCES)
        single = _replies(points, expected.rows, [alone.call(name, *given) for name, given in expected.rows])
    except Exception as error:  # noqa: BLE001
        return Outcome(Verdict.MISMATCH, what="a row by itself fails", expected="no failure", found=_told(error))
    if single != expected.replies:
        return _different("replies of rows by themselves", expected.replies, single)
    cuts = Cuts.random(seed, len(expected.rows))
    reference = _Stored(compiled, KEY_GROUPS, INSTANCES)
    wanted: dict[int, str] = {}
    found: dict[int, str] = {}
    start = 0
    with temporary_folder() as directory:
        for size, partitions in zip(cuts.sizes, cuts.partitions, strict=True):
            here = expected.rows[start : start + size]
            try:
                told = reference.epoch(here)
                together = _replies(points, here, told)
            except Exception:  # noqa: BLE001
                # Rows that come between may make a row raise that plain Python can run: nothing to compare.
                return Outcome(Verdict.SAME, rows=start)
            wanted |= {start + number: reply for number, reply in together.items()}
            simulated = _simulated(compiled, directory, partitions, seed, 1 + seed % 4)
            try:
                simulated.epoch(here)
            except Exception as error:  # noqa: BLE001
                return Outcome(Verdict.MISMATCH, what="the run fails", expected="no failure", found=_told(error))
            found |= {number: repr(reply) for number, reply in simulated.replies().items()}
            start += size
        if found != wanted:
            return _different("replies", wanted, found)
        held = {key.hex(): value.hex() for key, value in read_state(FileStorage(directory / "checkpoint")).items()}
    state = {key.hex(): value.hex() for key, value in reference.state().items()}
    return Outcome(Verdict.SAME, rows=start) if held == state else _different("state", state, held)


class _Stored(Sequential):
    """Steps whose state is stored: a value that no checkpoint can hold fails, also if a later step would change it."""

    def _work(self, task: CompiledTask, values: dict[str, Any], instance: InstanceId) -> Any:
        result = super()._work(task, values, instance)
        for name in {access.state for access in task.accesses}:
            check = self._compiled.elements[name].type.values.check
            for held in self._states[name]:
                for value in dict.values(held.entries):
                    check(value)
        return result


def _replies(points: Mapping[str, EntryPoint], rows: Sequence[Row], told: Sequence[Any]) -> dict[int, str]:
    asked = [(number, row[0]) for number, row in enumerate(rows) if points[row[0]].replies]
    return {number: shown(told[number], points[name].returns) for number, name in asked}


def _run(program: type[ProgramBase], compiled: CompiledProgram, rows: Sequence[Row], seed: int) -> Outcome:
    expected = expect(program, rows)
    cuts = Cuts.random(seed, len(expected.rows))
    layout = Layout(KEY_GROUPS, 1, INSTANCES, compiled.has_partial)
    plain, points = program(), program.entries()
    with temporary_folder() as directory:
        replies: dict[int, str] = {}
        start = 0
        for size, partitions in zip(cuts.sizes, cuts.partitions, strict=True):
            simulated = _simulated(compiled, directory, partitions, seed)
            try:
                simulated.epoch(expected.rows[start : start + size])
            except Exception as error:  # noqa: BLE001
                return Outcome(Verdict.MISMATCH, what="the run fails", expected="no failure", found=_told(error))
            replies |= {number: repr(reply) for number, reply in simulated.replies().items()}
            replies |= {number: refusal(reason) for number, reason in simulated.refusals().items()}
            start += size
        for row in expected.rows:
            call(plain, points, row)
        if replies != expected.replies:
            return _different("replies", expected.replies, replies)
        state = plain_state(plain, layout)
        found = committed_state(program.elements(), read_state(FileStorage(directory / "checkpoint")))
        if found != state:
            return _different("state", _flat(state), _flat(found))
        failing = _raising(plain, points, expected.raises)
        if failing is not None:
            wrong = _raise(compiled, directory, cuts.partitions[-1], *failing)
            if wrong is not None:
                return wrong
    return Outcome(Verdict.SAME, rows=len(expected.rows), raised=failing is not None)


class _Shuffled(Simulated):
    """Rows arrive at their partitions in an order of no meaning, which the seed tells."""

    seed = 0

    def _route(self, fed: Fed) -> list[pa.RecordBatch]:
        dice = Dice(self.seed + len(fed.rows))
        batches = super()._route(fed)
        return [batch.take(pa.array(dice.shuffled(range(batch.num_rows)), pa.int64())) for batch in batches]


def _simulated(
    compiled: CompiledProgram, directory: Path, partitions: int, seed: int, steps_max: int = STEPS_MAX
) -> Simulated:
    rows = Dice(seed).between(0, PORTION_ROWS_MAX)
    simulated = _Shuffled(
        compiled,
        directory,
        partitions=partitions,
        key_groups=KEY_GROUPS,
        instances=INSTANCES,
        steps_max=steps_max,
        memory_bytes=rows * ROW_BYTES,
    )
    simulated.seed = seed
    dice = Dice(31 * seed + simulated.fed)
    if dice.chance(OTHER_OWNERS):
        owners = [(dice.between(0, partitions - 1), atom) for atom in simulated.layout.atoms]
        simulated.assign([owner for owner, atom in owners for _ in atom])
    return simulated


def _flat(state: dict[str, dict[str, str]]) -> dict[str, str]:
    return {f"{name}[{key}]": value for name, entries in state.items() for key, value in entries.items()}


def _different(what: str, expected: Mapping[Any, str], found: Mapping[Any, str]) -> Outcome:
    keys = sorted((key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)), key=str)
    left = {key: expected.get(key, "nothing") for key in keys[:5]}
    right = {key: found.get(key, "nothing") for key in keys[:5]}
    return Outcome(Verdict.MISMATCH, what=what, expected=str(left), found=str(right))


def _raising(plain: ProgramBase, points: Mapping[str, EntryPoint], rows: Sequence[Row]) -> tuple[Row, Exception] | None:
    """A row that raises in the state that all others have left, if there is one. Plain Python is of no use after it."""
    if not rows:
        return None
    try:
        call(plain, points, rows[-1])
    except (MillpondError, UnfitError):
        return None
    except Exception as error:  # noqa: BLE001
        return rows[-1], error
    return None


def _raise(compiled: CompiledProgram, directory: Path, partitions: int, row: Row, error: Exception) -> Outcome | None:
    """An epoch with a row that raises must fail with the same exception, and leave nothing behind.

    Where the turns of a loop are sent away, the rest of the method goes on before them: if both raise, it is told.
    """
    storage = FileStorage(directory / "checkpoint")
    before = read_state(storage)
    wanted = f"raised {type(error).__name__}"
    try:
        _simulated(compiled, directory, partitions, len(before)).epoch([row])
    except RowError as found:
        if wanted not in found.summary and not _fans_out(compiled, row[0]):
            return Outcome(Verdict.MISMATCH, what=f"failure of {row}", expected=wanted, found=found.summary)
    except Exception as found:  # noqa: BLE001
        return Outcome(Verdict.MISMATCH, what=f"failure of {row}", expected=wanted, found=_told(found))
    else:
        return Outcome(Verdict.MISMATCH, what=f"failure of {row}", expected=wanted, found="no failure")
    if read_state(storage) != before:
        return Outcome(
            Verdict.MISMATCH, what=f"state after the failure of {row}", expected="unchanged", found="changed"
        )
    return None


def _fans_out(compiled: CompiledProgram, entry: str) -> bool:
    graph = compiled.graph
    own = {task.name for task in graph.tasks if task.entry == entry}
    return any(edge.fan_out and edge.source in own for edge in graph.edges)

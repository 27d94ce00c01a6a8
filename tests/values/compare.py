"""One program about shared objects, run by the package in all its ways, and compared with the oracle of values.

The ways are: the class called as plain Python, by a caller who changes what he passed and what he got; the sequential
run; and simulated runs over random epochs and partitions, with and without restarts, in which rows that raise are
skipped or become dead letters.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from millpond.checkpoint.recovery import read_state
from millpond.compiler import CompiledProgram, compile_program
from millpond.engine.plan import BadRows
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.task.spill import ROW_BYTES
from millpond.errors import MillpondError, ProgramError, RowError
from millpond.program import ProgramBase
from millpond.state.local.storekey import element_of, unit_of
from millpond.storage.backends.files import FileStorage
from tests.fuzz.compare import Cuts, Outcome, Verdict
from tests.fuzz.dice import Dice
from tests.fuzz.loading import loaded, temporary_folder
from tests.values.plain import Ended, Row, expect
from tests.values.trees import copied, told

KEY_GROUPS = 8
UNFIT_FOR_A_CUT = "MP601"
REPLIES = (str, int, list, type(None))

State = dict[str, dict[Any, str]]


def compare(text: str, rows: Sequence[Row], seed: int) -> Outcome:
    """Run a program in all ways; a refusal by the compiler is fine, but plain Python runs whatever it is."""
    with warnings.catch_warnings():
        # A program that is being made smaller may call a number.
        warnings.simplefilter("ignore", SyntaxWarning)
        return _compare(text, rows, seed)


def _compare(text: str, rows: Sequence[Row], seed: int) -> Outcome:
    ends, state = expect(text, rows)
    with loaded(text) as program:
        entries = program.entries()
        if any(name not in entries for name, _ in rows) or any(not isinstance(end.reply, REPLIES) for end in ends):
            return Outcome(Verdict.SAME, what="a smaller program that says nothing")
        runs = _Runs(program, rows, ends, state, seed)
        outcome = runs.plain()
        if outcome is not None:
            return outcome
        try:
            compiled = compile_program(program)
        except ProgramError as refused:
            coded = refused.code.startswith("MP1") and refused.places
            return Outcome(Verdict.REFUSED if coded else Verdict.CRASH, refused.code, "a refusal", found=str(refused))
        except Exception as error:  # noqa: BLE001
            return Outcome(Verdict.CRASH, type(error).__name__, "the compiler failed", found=_last(error))
        outcome = runs.sequential(compiled) or runs.simulated(compiled)
        raised = sum(bool(end.raised) for end in ends)
        return outcome or Outcome(Verdict.SAME, rows=len(rows), raised=raised)


class _Runs:
    def __init__(
        self, program: type[ProgramBase], rows: Sequence[Row], ends: Sequence[Ended], state: State, seed: int
    ) -> None:
        self._program, self._ends, self._state, self._seed = program, ends, state, seed
        self._forbidden = bool(ends) and bool(ends[-1].outside)
        """Whether the last row changes what lies outside: nobody may run it."""
        self._rows = rows[: len(ends) - self._forbidden]
        self._last = rows[len(ends) - 1] if self._forbidden else None
        self._outside = _outside(program)
        self._stopped = ""
        """The code by which a run said that it can't go on with a row."""

    def plain(self) -> Outcome | None:
        plain = self._program()
        for number, (name, given) in enumerate(self._rows):
            passed = copied(given)
            outcome = self._row(number, "plain", lambda name=name, passed=passed: getattr(plain, name)(*passed))
            if outcome is not None:
                return outcome
            for one in passed:
                if isinstance(one, list):
                    one.append(88)
        found = {name: {key: told(value) for key, value in dict(getattr(plain, name)).items()} for name in self._state}
        return self._settled("plain", found)

    def sequential(self, compiled: CompiledProgram) -> Outcome | None:
        run = Sequential(compiled, KEY_GROUPS)
        for number, (name, given) in enumerate(self._rows):
            passed = copied(given)
            outcome = self._row(number, "sequential", lambda name=name, passed=passed: run.call(name, *passed))
            if outcome is not None:
                return outcome
            if self._stopped:
                return Outcome(Verdict.REFUSED, self._stopped, "a value that can't travel over a cut")
        try:
            outcome = self._settled("sequential", self._read(run.state()))
        except MillpondError as error:
            return _wrong("sequential: the state can't be saved", "values", _last(error))
        if outcome is not None or self._last is None:
            return outcome
        name, given = self._last
        try:
            run.call(name, *copied(given))
        except MillpondError:
            return None
        except Exception as error:  # noqa: BLE001
            return _wrong(f"sequential: {self._ends[-1].outside} changed", "a refusal", _last(error))
        return _wrong(f"sequential: {self._ends[-1].outside} changed", "a refusal", "accepted")

    def simulated(self, compiled: CompiledProgram) -> Outcome | None:
        cuts, dice = Cuts.random(self._seed, len(self._rows)), Dice(self._seed)
        policy, portion = dice.one([BadRows.SKIP, BadRows.DEAD_LETTER]), dice.one([0, 3]) * ROW_BYTES
        points = self._program.entries()
        wanted = {
            number: told(end.reply)
            for number, ((name, _), end) in enumerate(zip(self._rows, self._ends, strict=False))
            if points[name].replies and not end.raised
        }
        with temporary_folder() as folder:
            found: dict[int, str] = {}
            letters: set[int] = set()
            start, run = 0, None
            for size, partitions in zip(cuts.sizes, cuts.partitions, strict=True):
                try:
                    if run is None or dice.chance(0.6):
                        run = Simulated(compiled, folder, partitions, KEY_GROUPS, bad_rows=policy, memory_bytes=portion)
                    run.epoch([(name, tuple(copied(given))) for name, given in self._rows[start : start + size]])
                except Exception as error:  # noqa: BLE001
                    return _wrong("simulated: the run fails", "no failure", _last(error))
                found |= {number: told(reply) for number, reply in run.replies().items()}
                letters |= {letter["order_by"] for sink in run.dead_letters.values() for letter in sink.rows()}
                start += size
            if found != wanted:
                return _different("simulated: replies", wanted, found)
            raised = {number for number, end in enumerate(self._ends[:start]) if end.raised}
            if policy is BadRows.DEAD_LETTER and letters != raised:
                return _wrong("simulated: dead letters", str(sorted(raised)), str(sorted(letters)))
            return self._settled("simulated", self._read(read_state(FileStorage(folder / "checkpoint"))))

    def _row(self, number: int, way: str, call: Callable[[], Any]) -> Outcome | None:
        end = self._ends[number]
        try:
            reply = call()
        except Exception as error:  # noqa: BLE001
            found = f"raised {type(error).__name__}"
            if isinstance(error, RowError) and error.code == UNFIT_FOR_A_CUT:
                self._stopped = error.code
                return None
            # A misfit is an exception of the package's own; of which code it is, other tests ask.
            if end.raised in {type(error).__name__, "MisfitError" if isinstance(error, MillpondError) else ""}:
                return None
            expected = f"raises {end.raised}" if end.raised else told(end.reply)
            return _wrong(f"{way}: reply", expected, f"row {number} {found}: {_last(error)}")
        found = told(reply)
        if isinstance(reply, list):
            reply.append(77)
        if end.raised:
            return _wrong(f"{way}: reply", f"row {number} raises {end.raised}", found)
        return None if found == told(end.reply) else _wrong(f"{way}: reply", f"row {number}: {told(end.reply)}", found)

    def _settled(self, way: str, found: State) -> Outcome | None:
        if _outside(self._program) != self._outside:
            return _wrong(f"{way}: what lies outside of rows", str(self._outside), str(_outside(self._program)))
        left = {name: held for name, held in found.items() if held}
        wanted = {name: held for name, held in self._state.items() if held}
        return None if left == wanted else _different(f"{way}: state", _flat(wanted), _flat(left))

    def _read(self, held: dict[bytes, bytes]) -> State:
        found: State = {name: {} for name in self._state}
        elements = list(self._program.elements().items())
        for key, value in held.items():
            name, element = elements[element_of(key)]
            if element.partial:
                continue
            found[name][element.type.keys.decode(unit_of(key))] = told(element.type.values.decode(value))
        return found


def _outside(program: type[ProgramBase]) -> dict[str, str]:
    module = sys.modules[program.__module__]
    held = {**vars(module), **{f"self.{name}": one for name, one in vars(program).items()}}
    plain = {name: one for name, one in held.items() if isinstance(one, list | dict | set) and not _hidden(name)}
    return {name: told(one) for name, one in plain.items()} | {"HOUSE": told(held.get("HOUSE"))}


def _hidden(name: str) -> bool:
    return name.removeprefix("self.").startswith("_")


def _flat(state: State) -> dict[str, str]:
    return {f"{name}[{key!r}]": value for name, held in state.items() for key, value in held.items()}


def _different(what: str, expected: dict[Any, str], found: dict[Any, str]) -> Outcome:
    keys = sorted((key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)), key=str)[:4]
    left, right = ({key: side.get(key, "nothing") for key in keys} for side in (expected, found))
    return _wrong(what, str(left), str(right))


def _wrong(what: str, expected: str, found: str) -> Outcome:
    return Outcome(Verdict.MISMATCH, what=what, expected=expected, found=found)


def _last(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-1500:]

"""The same program with entry points that are not cut, so that rows of theirs are undone where they raise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.plan import Excluded, Level, ProgramPlan
from millpond.engine.sequence.ways import in_sequence
from millpond.errors import ProgramError
from millpond.program import ProgramBase


def uncut_plan(plan: ProgramPlan, rows: Iterable[Excluded]) -> ProgramPlan | None:
    """A plan in which the entry points of some rows run gathered, and all that are relaxed; or all rows in sequence.

    Where epochs are computed again from their rows they must be computed in one way: then there is none.
    """
    if plan.durability is Level.REPLAY:
        return None
    relaxed = {name for name, entry in plan.program.entries.items() if entry.point.relaxed}
    whole = frozenset({plan.feeds[row.feed].entry for row in rows} | relaxed)
    program = _uncut(plan.program.made_of, whole)
    if program is None or any(program.graph.why_sequence(name) for name in whole):
        return in_sequence(plan)
    return replace(plan, program=program)


_Compiled = dict[frozenset[str], CompiledProgram | None]
_known: WeakKeyDictionary[type[ProgramBase], _Compiled] = WeakKeyDictionary()


def _uncut(program: type[ProgramBase], entries: frozenset[str]) -> CompiledProgram | None:
    compiled = _known.setdefault(program, {})
    if entries not in compiled:
        try:
            compiled[entries] = compile_program(program, sorted(entries))
        except ProgramError:
            compiled[entries] = None
    return compiled[entries]

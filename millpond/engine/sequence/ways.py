"""Which way an epoch runs: in sequence if it has rows of an entry point that can't run otherwise, else by its plan."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from weakref import WeakKeyDictionary

from millpond.compiler.compile import compile_in_sequence
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.plan import ProgramPlan
from millpond.ids import PartitionId
from millpond.program import ProgramBase

HOME = PartitionId(0)
"""The partition whose task runs all rows."""

_PLANS_MAX = 4
_plans: list[tuple[ProgramPlan, ProgramPlan]] = []
"""The last few plans, each with the same one in sequence: so that it is shipped once."""

_known: WeakKeyDictionary[type[ProgramBase], CompiledProgram] = WeakKeyDictionary()


def sequence_feeds(plan: ProgramPlan) -> list[int]:
    """Return the feeds whose rows have to run in sequence."""
    graph = plan.program.graph
    return [number for number, feed in enumerate(plan.feeds) if graph.why_sequence(feed.entry)]


def plan_for(plan: ProgramPlan, fed: Collection[int]) -> ProgramPlan:
    """Return the plan of an epoch that has rows of some feeds."""
    return plan if set(fed).isdisjoint(sequence_feeds(plan)) else in_sequence(plan)


def in_sequence(plan: ProgramPlan) -> ProgramPlan:
    """Return the same plan with all rows in sequence."""
    if plan.in_sequence:
        return plan
    made = next((slow for fast, slow in _plans if fast is plan), None)
    if made is None:
        made = replace(plan, program=_compiled(plan.program.made_of))
        _plans.append((plan, made))
        del _plans[:-_PLANS_MAX]
    return made


def _compiled(program: type[ProgramBase]) -> CompiledProgram:
    compiled = _known.get(program)
    if compiled is None:
        compiled = _known[program] = compile_in_sequence(program)
    return compiled

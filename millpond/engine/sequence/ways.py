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

_known: WeakKeyDictionary[type[ProgramBase], CompiledProgram] = WeakKeyDictionary()


def sequence_feeds(plan: ProgramPlan) -> list[int]:
    """The feeds whose rows have to run in sequence."""
    graph = plan.program.graph
    return [number for number, feed in enumerate(plan.feeds) if graph.why_sequence(feed.entry)]


def plan_for(plan: ProgramPlan, fed: Collection[int]) -> ProgramPlan:
    """The plan of an epoch that has rows of some feeds."""
    return plan if set(fed).isdisjoint(sequence_feeds(plan)) else in_sequence(plan)


def in_sequence(plan: ProgramPlan) -> ProgramPlan:
    """The same plan with all rows in sequence."""
    if plan.in_sequence:
        return plan
    program = _known.get(plan.program.made_of)
    if program is None:
        program = _known[plan.program.made_of] = compile_in_sequence(plan.program.made_of)
    return replace(plan, program=program)

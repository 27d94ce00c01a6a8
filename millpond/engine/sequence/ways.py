"""Which way an epoch runs: in sequence if it has rows of an entry point that can't run otherwise, else by its plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from weakref import WeakKeyDictionary

from millpond.compiler.compile import compile_in_sequence
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.plan import ProgramPlan
from millpond.engine.sequence.cutting import CUT_ROWS_MAX, can_cut
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


def cut_around(plan: ProgramPlan, feeds: Sequence[int]) -> list[tuple[int, int]]:
    """Say where the rows of an epoch, of these feeds, are cut: around those in sequence, if they are few among others.

    Each part is from one row up to another; there is none if the epoch stays whole.
    """
    slow = set(sequence_feeds(plan))
    few = sum(feed in slow for feed in feeds)
    if not 0 < few <= min(CUT_ROWS_MAX, len(feeds) - 1) or not can_cut(plan):
        return []
    ends = [at for at in range(1, len(feeds)) if (feeds[at] in slow) is not (feeds[at - 1] in slow)]
    return list(pairwise([0, *ends, len(feeds)]))


def in_sequence(plan: ProgramPlan) -> ProgramPlan:
    """Return the same plan with all rows in sequence."""
    if plan.in_sequence:
        return plan
    made = next((slow for fast, slow in _plans if fast is plan), None)
    if made is None:
        made = replace(plan, program=as_in_sequence(plan.program))
        _plans.append((plan, made))
        del _plans[:-_PLANS_MAX]
    return made


def as_in_sequence(fast: CompiledProgram) -> CompiledProgram:
    """Return a program with all rows in sequence; they meet the instances of partial state that they meet elsewhere."""
    slow = _compiled(fast.made_of)
    entries = {name: replace(one, meets=fast.entries[name].meets) for name, one in slow.entries.items()}
    return replace(slow, entries=MappingProxyType(entries))


def _compiled(program: type[ProgramBase]) -> CompiledProgram:
    compiled = _known.get(program)
    if compiled is None:
        compiled = _known[program] = compile_in_sequence(program)
    return compiled

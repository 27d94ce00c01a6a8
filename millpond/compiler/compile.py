"""The compiler's entry: all passes, in their order."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from millpond.compiler.analysis.liveness import find_live
from millpond.compiler.analysis.outside.check import check_outside
from millpond.compiler.analysis.owned import find_owned
from millpond.compiler.analysis.reaching import find_reaching
from millpond.compiler.analysis.sets.order import check_set_order
from millpond.compiler.analysis.sets.sights import find_set_sights
from millpond.compiler.analysis.values import find_values
from millpond.compiler.back.codegen import generate
from millpond.compiler.back.sequence import check_sequence
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft
from millpond.compiler.front.ambient import set_ambient
from millpond.compiler.front.callees import OURS, helper_function
from millpond.compiler.front.inlining.inline import inline
from millpond.compiler.front.restrict import restrict
from millpond.compiler.front.source import read_sources
from millpond.compiler.ir.cfg import build_cfgs
from millpond.compiler.ir.normal_form import normalise
from millpond.compiler.obstacles import Bars
from millpond.compiler.plan.access import classify
from millpond.compiler.plan.aliases import check_aliases
from millpond.compiler.plan.dispatch import dispatch
from millpond.compiler.plan.fan_out import find_fan_outs
from millpond.compiler.plan.gather import gather
from millpond.compiler.plan.key_slice.key_sets import find_key_sets
from millpond.compiler.plan.split import split
from millpond.compiler.plan.stratify import stratify
from millpond.compiler.plan.way_choice import Ways
from millpond.errors import ProgramError
from millpond.program import ProgramBase
from millpond.program.entries import abstract_methods
from millpond.program.places import signature_place
from millpond.program.settings import configured

Pass = Callable[[Draft], Draft]

ALL_IN_SEQUENCE: Final = "all rows of the epoch do"

PASSES: Final[tuple[Pass, ...]] = (
    read_sources,
    check_set_order,
    find_set_sights,
    inline,
    set_ambient,
    restrict,
    check_outside,
    gather,
    normalise,
    build_cfgs,
    find_reaching,
    find_values,
    classify,
    find_live,
    find_fan_outs,
    split,
    stratify,
    dispatch,
    check_aliases,
    find_key_sets,
    find_owned,
    generate,
)
"""Every pass takes a draft and leaves a draft with more in it; its module says what it needs and leaves."""

FRONT: Final = PASSES[: PASSES.index(check_outside) + 1]
"""The passes that ask for nothing but the source, whichever way is tried."""

RESERVED: Final = frozenset(("abort", "elements", "entries", "explain", "now", "on", "random"))
"""What programs are asked for by these names must not be hidden by members of their own."""


def draft_program(program: type[ProgramBase], until: Pass = generate, uncut: Iterable[str] = ()) -> Draft:
    """Run the passes up to and including `until`; entry points that are to stay `uncut` run gathered.

    Statements that touch several elements under one key are kept together first, which gives the best code. If no order
    of the elements suits that, they are taken apart. Entry points that can't be ordered or cut even so run gathered, if
    their keys follow from their arguments; those that can't either run in sequence, and the others are compiled as if
    these were not there.
    """
    program = configured(program)
    _check_names(program)
    _check_whole(program)
    ways = Ways(uncut)
    read: dict[frozenset[str], Draft] = {}
    draft = _draft(program, ways, until, read)
    while ways.slow_down(draft):
        draft = _draft(program, ways, until, read)
    if until is generate:
        check_sequence(draft)
        _check_ways(draft)
    return draft


def _draft(program: type[ProgramBase], ways: Ways, until: Pass, read: dict[frozenset[str], Draft]) -> Draft:
    """Run passes for the ways that were chosen, up to what stands in the way of some entry points."""
    begun = Draft(program, program.elements(), gathered=ways.gathered, sequence=ways.sequence, faster=ways.faster)
    draft = _run(begun, until, read)
    if any(obstacle.bars is Bars.ORDER for obstacle in draft.obstacles.values()):
        return _run(replace(begun, eager=True), until, read)
    return draft


def _run(draft: Draft, until: Pass, read: dict[frozenset[str], Draft]) -> Draft:
    """Run passes; those of the front are not run again for the entry points that were `read` before."""
    names = frozenset(draft.sequence)
    passes = PASSES
    if names in read and until not in FRONT:
        known = read[names]
        draft = replace(draft, methods=known.methods, whole=known.whole, sees_sets=known.sees_sets)
        passes = PASSES[len(FRONT) :]
    for run in passes:
        draft = run(draft)
        if draft.obstacles or run is until:
            break
        if run is FRONT[-1]:
            read[names] = draft
    return draft


def compile_program(program: type[ProgramBase], uncut: Iterable[str] = ()) -> CompiledProgram:
    """Compile a program class, or raise a ProgramError that points at the line that can't be compiled."""
    compiled = draft_program(program, uncut=uncut).compiled
    assert compiled is not None
    return compiled


def compile_in_sequence(program: type[ProgramBase]) -> CompiledProgram:
    """Compile a program that was compiled before so that all its rows run in sequence, and its class travels."""
    every = dict.fromkeys(program.entries(), ALL_IN_SEQUENCE)
    compiled = _run(Draft(program, program.elements(), sequence=every), generate, {}).compiled
    assert compiled is not None
    return replace(compiled, shipped=program)


def _check_ways(draft: Draft) -> None:
    """Refuse gathered entry points that ask to be cut into steps."""
    for method in draft.methods:
        if method.gathered and method.point.way == "steps":
            raise refuse(
                "MP189",
                f"{method.name} runs gathered, and asks for steps",
                method.source,
                method.tree,
                expected="accesses that every entry point makes in one order, and no abort",
                found=method.gathered,
                hint='leave way="steps" out: gathered rows are as exact, and `explain` tells what they cost',
            )


def _check_names(program: type[ProgramBase]) -> None:
    """Refuse members that hide what every program has: the compiler goes by what these names mean there."""
    own = [base for base in program.__mro__[: program.__mro__.index(ProgramBase)] if base.__module__ not in OURS]
    for base in own:
        hidden = sorted(name for name in RESERVED & vars(base).keys() if not _is_ours(vars(base)[name]))
        if hidden:
            raise ProgramError(
                "MP126",
                f"`{hidden[0]}` of {program.__name__} hides a name that every program has",
                expected=f"names other than {', '.join(sorted(RESERVED))}",
                found=hidden[0],
                hint="rename the state element, the entry point, the helper or the constant",
            )


def _check_whole(program: type[ProgramBase]) -> None:
    """Refuse a class that can't be made, since others are to fill in its methods."""
    missing = abstract_methods(program)
    if missing:
        function = helper_function(program, missing[0])
        raise ProgramError(
            "MP149",
            f"{program.__name__} is abstract",
            places=() if function is None else signature_place(function),
            expected="a class with all its methods",
            found=f"no body for {', '.join(missing)}",
            hint="run a class that derives from it and has them",
        )


def _is_ours(member: object) -> bool:
    """Whether a member is a function of Millpond's: `millpond check` asks for some entry points of a program alone."""
    function = getattr(member, "__func__", member)
    return (
        isinstance(function, types.FunctionType) and function.__module__.partition(".")[0] == __name__.partition(".")[0]
    )

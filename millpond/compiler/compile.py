"""The compiler's entry: all passes, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from millpond.compiler.access import classify
from millpond.compiler.aliases import check_aliases
from millpond.compiler.ambient import set_ambient
from millpond.compiler.cfg import build_cfgs
from millpond.compiler.codegen import generate
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.dispatch import dispatch
from millpond.compiler.draft import Draft
from millpond.compiler.fanout import find_fan_outs
from millpond.compiler.inline import inline
from millpond.compiler.liveness import find_live
from millpond.compiler.normalise import normalise
from millpond.compiler.reaching import find_reaching
from millpond.compiler.restrict import restrict
from millpond.compiler.setorder import check_set_order
from millpond.compiler.source import read_sources
from millpond.compiler.split import split
from millpond.compiler.stratify import stratify
from millpond.errors import ProgramError
from millpond.program import Element, ProgramBase

Pass = Callable[[Draft], Draft]

PASSES: Final[tuple[Pass, ...]] = (
    read_sources,
    check_set_order,
    inline,
    set_ambient,
    restrict,
    normalise,
    build_cfgs,
    find_reaching,
    classify,
    find_live,
    find_fan_outs,
    split,
    stratify,
    dispatch,
    check_aliases,
    generate,
)
"""Every pass takes a draft and leaves a draft with more in it; its module says what it needs and leaves."""

_ORDERLESS: Final = frozenset(("MP150", "MP151", "MP152", "MP155"))

RESERVED: Final = frozenset(("elements", "entries", "explain", "now", "on", "random"))
"""What programs are asked for by these names must not be hidden by state or entry points."""


def draft_program(program: type[ProgramBase], until: Pass = generate) -> Draft:
    """Run the passes up to and including `until`.

    Statements that touch several elements under one key are kept together first, which gives the best code. If no order
    of the elements suits that, they are taken apart.
    """
    _check_names(program)
    try:
        return _run(Draft(program, program.elements()), until)
    except ProgramError as error:
        if error.code not in _ORDERLESS:
            raise
        return _run(Draft(program, program.elements(), eager=True), until)


def _run(draft: Draft, until: Pass) -> Draft:
    for run in PASSES:
        draft = run(draft)
        if run is until:
            break
    return draft


def compile_program(program: type[ProgramBase]) -> CompiledProgram:
    """Compile a program class, or raise a ProgramError that points at the line that can't be compiled."""
    compiled = draft_program(program).compiled
    assert compiled is not None
    return compiled


def _check_names(program: type[ProgramBase]) -> None:
    """Refuse state and entry points that hide what every program has."""
    for base in program.__mro__[: program.__mro__.index(ProgramBase)]:
        hidden = sorted(name for name, member in vars(base).items() if name in RESERVED and _is_declared(member))
        if hidden:
            raise ProgramError(
                "MP126",
                f"`{hidden[0]}` of {program.__name__} hides a name that every program has",
                expected=f"names other than {', '.join(sorted(RESERVED))}",
                found=hidden[0],
                hint="rename the state element or the entry point",
            )


def _is_declared(member: object) -> bool:
    """Whether a class member is a state element or an entry point."""
    return isinstance(member, Element) or hasattr(member, "__millpond_entry__")

"""The compiler's entry: all passes, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from millpond.compiler.access import classify
from millpond.compiler.aliases import check_aliases
from millpond.compiler.ambient import set_ambient
from millpond.compiler.cfg import build_cfgs
from millpond.compiler.codegen import generate
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.dispatch import dispatch
from millpond.compiler.draft import Draft, Method
from millpond.compiler.fanout import find_fan_outs
from millpond.compiler.gather import both, describe, gather, touched_by
from millpond.compiler.inline import inline
from millpond.compiler.keysets import find_key_sets
from millpond.compiler.liveness import find_live
from millpond.compiler.normalise import normalise
from millpond.compiler.reaching import find_reaching
from millpond.compiler.restrict import restrict
from millpond.compiler.setorder import check_set_order
from millpond.compiler.source import read_sources
from millpond.compiler.split import split
from millpond.compiler.stratify import OrderError, stratify
from millpond.errors import ProgramError
from millpond.program import Element, ProgramBase

Pass = Callable[[Draft], Draft]

PASSES: Final[tuple[Pass, ...]] = (
    read_sources,
    check_set_order,
    inline,
    set_ambient,
    restrict,
    gather,
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
    find_key_sets,
    generate,
)
"""Every pass takes a draft and leaves a draft with more in it; its module says what it needs and leaves."""

_ORDERLESS: Final = frozenset(("MP150", "MP151", "MP152", "MP155"))
_CUT: Final = frozenset(
    ("MP125", "MP136", "MP139", "MP153", "MP154", "MP156", "MP157", "MP160", "MP161", "MP162", "MP164")
)
"""What stands in the way of a cut; a method that runs gathered is not cut."""

_UNGATHERED: Final = frozenset(("MP180", "MP181", "MP182", "MP183"))
"""Why a method can't run gathered."""

RESERVED: Final = frozenset(("abort", "elements", "entries", "explain", "now", "on", "random"))
"""What programs are asked for by these names must not be hidden by state or entry points."""


def draft_program(program: type[ProgramBase], until: Pass = generate) -> Draft:
    """Run the passes up to and including `until`.

    Statements that touch several elements under one key are kept together first, which gives the best code. If no order
    of the elements suits that, they are taken apart. Entry points that can't be ordered or cut even so run gathered, if
    their keys follow from their arguments.
    """
    _check_names(program)
    gathered: dict[str, str] = {}
    failed: _FailedPassError | None = None
    while True:
        try:
            return _draft(program, gathered, until)
        except _FailedPassError as failure:
            error = failure.error
            if failed is not None and error.code in _UNGATHERED:
                raise both(failed.error, error) from None
            more = failure.at_fault() - gathered.keys() if error.code in _ORDERLESS | _CUT else frozenset()
            if not more or not failure.can_gather():
                raise error from None
            gathered |= dict.fromkeys(sorted(more), describe(error))
            failed = failure


class _FailedPassError(Exception):
    """A pass refused a draft."""

    def __init__(self, error: ProgramError, draft: Draft, run: Pass) -> None:
        super().__init__(str(error))
        self.error = error
        self._draft = draft
        self._run = run

    def at_fault(self) -> frozenset[str]:
        """The entry points that the pass refuses: those that the error names, or that it refuses alone."""
        if isinstance(self.error, OrderError):
            return frozenset(self.error.entries)
        exact = (method for method in self._draft.methods if not method.relaxed)
        return frozenset(method.name for method in exact if self._refuses(method))

    def can_gather(self) -> bool:
        """Whether there is anything to gather: an element that is split by key."""
        methods = [method for method in self._draft.methods if method.name in self.at_fault()]
        touched = {name for method in methods for name in touched_by(self._draft, method)}
        return any(not self._draft.elements[name].partial for name in touched)

    def _refuses(self, method: Method) -> bool:
        try:
            self._run(replace(self._draft, methods=(method,)))
        except ProgramError as error:
            return error.code in _CUT
        return False


def _draft(program: type[ProgramBase], gathered: Mapping[str, str], until: Pass) -> Draft:
    try:
        return _run(Draft(program, program.elements(), gathered=gathered), until)
    except _FailedPassError as failure:
        if failure.error.code not in _ORDERLESS:
            raise
        return _run(Draft(program, program.elements(), eager=True, gathered=gathered), until)


def _run(draft: Draft, until: Pass) -> Draft:
    for run in PASSES:
        try:
            draft = run(draft)
        except ProgramError as error:
            raise _FailedPassError(error, draft, run) from error
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

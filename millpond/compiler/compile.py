"""The compiler's entry: all passes, in their order."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from millpond.compiler.analysis.liveness import find_live
from millpond.compiler.analysis.outside.check import check_outside
from millpond.compiler.analysis.owned import find_owned
from millpond.compiler.analysis.reaching import find_reaching
from millpond.compiler.analysis.sets.order import check_set_order
from millpond.compiler.analysis.sets.sights import find_set_sights
from millpond.compiler.analysis.values import find_values
from millpond.compiler.analysis.whole import find_renewed
from millpond.compiler.back.codegen import generate
from millpond.compiler.back.sequence import check_sequence
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.ambient import set_ambient
from millpond.compiler.front.callees import OURS, helper_function
from millpond.compiler.front.inlining.inline import inline
from millpond.compiler.front.restrict import restrict
from millpond.compiler.front.source import read_sources
from millpond.compiler.ir.cfg import build_cfgs
from millpond.compiler.ir.normal_form import normalise
from millpond.compiler.plan.access import classify
from millpond.compiler.plan.aliases import check_aliases
from millpond.compiler.plan.dispatch import dispatch
from millpond.compiler.plan.fan_out import find_fan_outs
from millpond.compiler.plan.gather import UNCUT, both, describe, gather, touched_by
from millpond.compiler.plan.key_slice.key_sets import find_key_sets
from millpond.compiler.plan.split import split
from millpond.compiler.plan.stratify import OrderError, stratify
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
    find_renewed,
    generate,
)
"""Every pass takes a draft and leaves a draft with more in it; its module says what it needs and leaves."""

FRONT: Final = PASSES[: PASSES.index(check_outside) + 1]
"""The passes that ask for nothing but the source, whichever way is tried."""

_ORDERLESS: Final = frozenset(("MP150", "MP151", "MP152", "MP155"))
_CUT: Final = frozenset(
    ("MP125", "MP136", "MP139", "MP153", "MP154", "MP156", "MP157", "MP160", "MP161", "MP162", "MP164")
)
"""What stands in the way of a cut; a method that runs gathered is not cut."""

_UNGATHERED: Final = frozenset(("MP180", "MP181", "MP183"))
"""Why a method can't run gathered."""

_UNSEEN: Final = frozenset(
    (
        *("MP111", "MP112", "MP113", "MP115", "MP116", "MP119", "MP123", "MP124", "MP127", "MP128", "MP129", "MP130"),
        *(
            "MP131",
            "MP132",
            "MP133",
            "MP137",
            "MP138",
            "MP141",
            "MP145",
            "MP170",
            "MP171",
            "MP172",
            "MP173",
            "MP174",
            "MP175",
        ),
    )
)
"""Where the compiler can't see which state is touched, or when. What of it no run could do is told by the check of
methods that run in sequence."""

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
    ways = _Ways(dict.fromkeys(uncut, UNCUT))
    while True:
        try:
            draft = _draft(program, ways, until)
            break
        except _FailedPassError as failure:
            if not ways.slow_down(failure):
                raise failure.error from None
    if until is generate:
        check_sequence(draft)
        _check_ways(draft)
    return draft


class _Ways:
    """Which entry points are known to run gathered, and which in sequence, each with the reason."""

    def __init__(self, uncut: Mapping[str, str]) -> None:
        self._uncut = uncut
        self.gathered = dict(uncut)
        self.sequence: dict[str, str] = {}
        self.faster: dict[str, str] = {}
        self.read: dict[frozenset[str], Draft] = {}
        # What keeps those that are gathered from being ordered or cut.
        self._disordered: dict[str, ProgramError] = {}

    def slow_down(self, failure: _FailedPassError) -> bool:
        """Choose a slower way for the entry points that a pass refused; say whether there is one."""
        error = failure.error
        more = failure.disordered() - self.gathered.keys() if error.code in _ORDERLESS | _CUT else frozenset()
        if more and failure.can_gather(more):
            self.gathered |= dict.fromkeys(sorted(more), describe(error))
            self._disordered |= dict.fromkeys(sorted(more), error)
            return True
        if error.code not in _ORDERLESS | _CUT | _UNGATHERED | _UNSEEN:
            return False
        slow = failure.refused()
        for method in slow:
            before = self._disordered.get(method.name)
            # What refuses several is told of each at its own line.
            error = failure.own(method)
            told = both(before, error) if before is not None and error.code in _UNGATHERED else error
            if method.point.way is not None:
                failure.error = told
                return False
            self.sequence[method.name] = describe(error)
            if error.hint is not None:
                self.faster[method.name] = error.hint
        # Those that remain may find levels without these.
        self.gathered = {name: why for name, why in self._uncut.items() if name not in self.sequence}
        self._disordered.clear()
        return bool(slow)


class _FailedPassError(Exception):
    """A pass refused a draft."""

    def __init__(self, error: ProgramError, draft: Draft, run: Pass) -> None:
        super().__init__(str(error))
        self.error = error
        self._draft = draft
        self._run = run

    def disordered(self) -> frozenset[str]:
        """The exact entry points that the pass can't order or cut: those that the error names, or that it refuses."""
        if isinstance(self.error, OrderError):
            return frozenset(self.error.entries)
        exact = (method for method in self._draft.methods if not method.relaxed)
        return frozenset(method.name for method in exact if self._refuses(method, _CUT))

    def can_gather(self, names: frozenset[str]) -> bool:
        """Whether entry points have anything to gather: an element that is split by key."""
        methods = [method for method in self._draft.methods if method.name in names]
        touched = {name for method in methods for name in touched_by(self._draft, method)}
        return any(not self._draft.elements[name].partial for name in touched)

    def refused(self) -> list[Method]:
        """The entry points that can't be compiled with the others; of those that only disagree, the last one.

        It is one that asks for no way, if there is such a one.
        """
        methods = self._draft.methods
        if isinstance(self.error, OrderError):
            named = [method for method in methods if method.name in self.error.entries]
            return sorted(named, key=lambda method: method.point.way is None)[-1:]
        alone = [method for method in methods if self._refuses(method, frozenset((self.error.code,)))]
        return alone or [method for method in methods if any(map(method.source.holds, self.error.places))]

    def own(self, method: Method) -> ProgramError:
        """Return what the pass says of one entry point alone, if it refuses it for the same reason."""
        gathered = {name: why for name, why in self._draft.gathered.items() if name == method.name}
        try:
            self._run(replace(self._draft, methods=(method,), gathered=gathered))
        except ProgramError as error:
            return error if error.code == self.error.code else self.error
        return self.error

    def _refuses(self, method: Method, codes: frozenset[str]) -> bool:
        try:
            self._run(replace(self._draft, methods=(method,)))
        except ProgramError as error:
            return error.code in codes
        return False


def _draft(program: type[ProgramBase], ways: _Ways, until: Pass) -> Draft:
    begun = Draft(program, program.elements(), gathered=ways.gathered, sequence=ways.sequence, faster=ways.faster)
    try:
        return _run(begun, until, ways.read)
    except _FailedPassError as failure:
        if failure.error.code not in _ORDERLESS:
            raise
        return _run(replace(begun, eager=True), until, ways.read)


def _run(draft: Draft, until: Pass, read: dict[frozenset[str], Draft] | None = None) -> Draft:
    """Run passes; those of the front are not run again for the entry points that were `read` before."""
    read = {} if read is None else read
    names = frozenset(draft.sequence)
    passes = PASSES
    if names in read and until not in FRONT:
        known = read[names]
        draft = replace(draft, methods=known.methods, whole=known.whole, sees_sets=known.sees_sets)
        passes = PASSES[len(FRONT) :]
    for run in passes:
        try:
            draft = run(draft)
        except ProgramError as error:
            raise _FailedPassError(error, draft, run) from error
        if run is FRONT[-1]:
            read[names] = draft
        if run is until:
            break
    return draft


def compile_program(program: type[ProgramBase], uncut: Iterable[str] = ()) -> CompiledProgram:
    """Compile a program class, or raise a ProgramError that points at the line that can't be compiled."""
    compiled = draft_program(program, uncut=uncut).compiled
    assert compiled is not None
    return compiled


def compile_in_sequence(program: type[ProgramBase]) -> CompiledProgram:
    """Compile a program that was compiled before so that all its rows run in sequence, and its class travels."""
    every = dict.fromkeys(program.entries(), ALL_IN_SEQUENCE)
    compiled = _run(Draft(program, program.elements(), sequence=every), generate).compiled
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

"""Failures of rows, told so that a person can act: the entry point, the arguments, the user's own line."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from millpond import errors
from millpond.compiler import compiled
from millpond.compiler.compiled import ROW_FUNCTION, CompiledTask, Unbound
from millpond.engine.messages import Failure, Letter
from millpond.engine.plan import BadRows, Excluded, FeedPlan, ProgramPlan
from millpond.engine.publish.deadletters import BadRow
from millpond.engine.task.intake import Work
from millpond.errors import MillpondError, RowError
from millpond.state.codec.shown import ascii_surrogates

_COMPILED = compiled.__file__
_PACKAGE = str(Path(errors.__file__).parent) + os.sep

RAISED = "MP603"
"""The code of a row on which the user's code raised."""

ROUNDS_MAX = 1000
"""Runs of an epoch to find out which of its rows raise; each settles one row more at least, and mostly all of them."""

SUSPECTS_MAX = 32
"""So many runs of an epoch of a relaxed program look at rows that raise one by one."""

SHOWN_CHARS_MAX = 60
"""Longer arguments are cut in messages."""

LINES_FIRST = 8
LINES_LAST = 24
"""So many of the user's lines are told, from where the row began and to where it raised; between them, how many more.
"""


class UnfitError(RowError):
    """What a row gave can't be handed over: its reply is not of the declared type, or what it carries can't travel."""


def refusal(bad: BadRow, feed: FeedPlan) -> Failure:
    """Return a bad row under the policy `fail`."""
    return Failure(
        "RowError",
        "MP602",
        f"a row of feed `{feed.name}` does not fit entry point `{feed.entry}`",
        expected=f"rows that fit the parameters of `{feed.entry}`",
        found=f"{bad.reason}; row {bad.row[:300]}{_origin(bad.source, bad.position)}",
        hint='clean the rows, or choose on_bad_row="skip" or a dead-letter sink for this feed',
        place=(bad.order, bad.feed, bad.source, bad.position),
    )


def failure_of(error: MillpondError, place: tuple[int, int, str | None, int] = (0, 0, None, 0)) -> Failure:
    """Return an error of ours as data that can travel to the driver."""
    told = (type(error).__name__, error.code, error.summary, error.expected, error.found, error.hint)
    return Failure(*told, place=place)


def row_failure(error: BaseException, work: Work, row: int, source: str | None, values: dict[str, Any]) -> Failure:
    """Return what the user's code raised on a row, with the arguments and the user's own lines."""
    entry = work.task.entry
    told = {name: value for name, value in values.items() if "__" not in name and value is not Unbound.UNBOUND}
    shown = ", ".join(f"{name}={_short(value)}" for name, value in told.items())
    position = int(work.places.position[row])
    where = "".join(f"\n    {line}" for line in _lines(error, work.task)[-3:])
    found = f"{entry}({shown}){_origin(source, position)}{where}"
    unfit = error if isinstance(error, UnfitError) else None
    return Failure(
        "RowError",
        RAISED if unfit is None else unfit.code,
        summary_of(error, entry) if unfit is None else unfit.summary,
        expected=None if unfit is None else unfit.expected,
        found=found if unfit is None else f"{unfit.found}; in {found}",
        hint="nothing of this epoch was committed; correct the program or the row and start again",
        trace=ascii_surrogates("".join(traceback.format_exception(error)))[-4000:],
        place=(int(work.places.order[row]), work.feed, source, position),
        tie=int(work.places.tie[row]),
        duplicate=int(work.places.duplicate[row]),
        path=work.paths[row].as_py() or b"",
        letter=letter_of(error, work.task),
        reason=reason_of(error, entry),
    )


def reason_of(error: BaseException, entry: str) -> str:
    """Say why a row is left out."""
    if isinstance(error, UnfitError):
        return f"{error.summary}: {error.found}"
    return summary_of(error, entry)


def summary_of(error: BaseException, entry: str) -> str:
    """Return what is said of a row on which the user's code raised."""
    text = text_of(error)
    return f"entry point `{entry}` raised {type(error).__name__}" + (f": {text}" if text else "")


def text_of(error: BaseException) -> str:
    """Return what an exception says, in short."""
    try:
        return ascii_surrogates(str(error)[:300])
    except Exception as other:  # noqa: BLE001 - a class of the user may fail in any way when it tells itself
        return f"(what it says can't be told: that raises {type(other).__name__})"


def letter_of(error: BaseException, task: CompiledTask) -> Letter:
    """Return what a dead letter tells of an exception."""
    lines = _lines(error, task)
    more = len(lines) - LINES_FIRST - LINES_LAST
    if more > 1:
        lines = [*lines[:LINES_FIRST], f"... {more} more", *lines[-LINES_LAST:]]
    return Letter(RowError.__name__ if isinstance(error, UnfitError) else type(error).__name__, tuple(lines))


def _lines(error: BaseException, task: CompiledTask) -> list[str]:
    """Find the lines of the user's own code, and of what it called, without the loop that the compiler put around."""
    if isinstance(error, UnfitError):
        return []
    frames = [frame for frame in _frames(error) if frame[0] != _COMPILED]
    if len(frames) > 1 and frames[1][2].partition("__")[0] == ROW_FUNCTION:
        frames = frames[1:]
    # Where a key or value was refused is of no use to who wrote the line that gave it.
    frames = [frame for frame in frames if not frame[0].startswith(_PACKAGE)] or frames
    return [
        ascii_surrogates(f"{file}:{number} in {_user_name(name, task)}: {linecache.getline(file, number).strip()}")
        for file, number, name in frames
    ]


def _frames(error: BaseException) -> Iterator[tuple[str, int, str]]:
    """File, line and function of each frame below our own; `traceback` would look at the files for each row."""
    frame = error.__traceback__ and error.__traceback__.tb_next
    while frame is not None:
        code = frame.tb_frame.f_code
        yield code.co_filename, frame.tb_lineno, code.co_name
        frame = frame.tb_next


def _user_name(name: str, task: CompiledTask) -> str:
    generated = name in (f"{task.entry}_{task.index}", ROW_FUNCTION) or name.startswith(f"{ROW_FUNCTION}__")
    return task.entry if generated else name


def as_error(failure: Failure) -> MillpondError:
    """Return the failure as the error that the user sees."""
    kind = getattr(errors, failure.kind, RowError)
    error: MillpondError = kind(
        failure.code, failure.summary, expected=failure.expected, found=failure.found, hint=failure.hint
    )
    return error


class RowRaisedError(RowError):
    """The user's code raised on rows whose feeds do not want to fail because of that, in a relaxed program.

    The first one speaks for all.
    """

    def __init__(self, failures: Sequence[Failure]) -> None:
        first = failures[0]
        super().__init__(first.code, first.summary, expected=first.expected, found=first.found, hint=first.hint)
        self.rows = tuple({_place(row): row for row in map(excluded_row, reversed(failures))}.values())[::-1]


class OthersRaisedError(RowError):
    """Other rows raised in a run of an epoch than those which it only tried: these are to be tried next."""

    def __init__(self, rows: tuple[Excluded, ...]) -> None:
        super().__init__(
            RAISED,
            f"the user's code raised on {len(rows)} rows, and they raise because of each other",
            found=rows[0].reason if rows else None,
            hint=f"nothing of this epoch was committed; {ROUNDS_MAX} runs did not settle it: make epochs smaller",
        )
        self.rows = rows


def excluded_row(failure: Failure) -> Excluded:
    """Return the row of a failure, as one to leave out."""
    order, feed, source, position = failure.place
    return Excluded(order, feed, source, position, failure.tie, failure.duplicate, failure.reason, failure.letter)


def check_raised(plan: ProgramPlan, raised: Sequence[Failure], tried: Sequence[Excluded]) -> None:
    """Compare the rows that raised, the first failure of each first, with those that were tried since they had raised.

    What a row meets depends on rows before it alone. So up to the first row that raised unexpectedly, or did not, all
    is as in plain Python: if that row may not raise, the run fails because of it. If there is none, rows that raised
    have left nothing, all others have raised nothing, and the run counts.
    """
    told: dict[Place, Failure] = {}
    for failure in raised:
        told.setdefault(_place(excluded_row(failure)), failure)
    found = {place: excluded_row(told[place]) for place in sorted(told)}
    expected = {_place(row): row for row in tried}
    differing = set(found) ^ set(expected)
    differing |= {place for place, row in expected.items() if place in found and _says_more(row, found[place])}
    first = min(differing, default=None)
    for place, row in found.items():
        if plan.feeds[row.feed].bad_rows is BadRows.FAIL and (first is None or place <= first):
            raise as_error(told[place])
    if differing:
        same = set(found) == set(expected)
        # Text that differs between runs of one row would never be settled.
        raise OthersRaisedError(tuple(replace(row, settled=same) for row in found.values()))


def _says_more(before: Excluded, now: Excluded) -> bool:
    return not before.settled and (before.reason, before.letter) != (now.reason, now.letter)


Place = tuple[int, int, str, int, int, int]


def _place(row: Excluded) -> Place:
    return row.order, row.feed, row.source or "", row.position, row.tie, row.duplicate


Result = TypeVar("Result")
Run = Callable[[ProgramPlan, tuple[Excluded, ...], Excluded | None], Result]
Uncut = Callable[[ProgramPlan, tuple[Excluded, ...]], ProgramPlan | None]


def leaving_out(plan: ProgramPlan, run: Run[Result], uncut: Uncut | None = None) -> Result:
    """Run an epoch again without the rows that raise, as if they had never been fed: nothing that they did is seen.

    All rows that raised are tried together in the next run. That is mostly the last one. If a row raised only because
    of another that is left out itself, or no longer does, their entry points are run `uncut` then, if that can be: so
    they are undone where they raise. Else there is one more such run.
    """
    if plan.relaxed:
        return _relaxed(plan, run, uncut)
    tried: tuple[Excluded, ...] = ()
    for turn in range(ROUNDS_MAX - 1):
        try:
            return run(plan, tried, None)
        except OthersRaisedError as others:
            found = others.rows
        whole = uncut(plan, (*tried, *found)) if turn and uncut is not None and plan.sifts else None
        plan, tried = (plan, found) if whole is None else (whole, ())
        uncut = uncut if whole is None else None
    return run(plan, tried, None)


def _relaxed(plan: ProgramPlan, run: Run[Result], uncut: Uncut | None) -> Result:
    """In a relaxed program a row meets its elements at any step, so that it can't be tried without a trace.

    One order that is allowed is that of the input. So the epoch is run uncut, if it can be, which undoes rows where
    they raise. Else they are left out of it. A row may raise only because of an earlier row that raises itself at a
    later step. So the rows before the first one are tried alone, and it is left out when none of them raises. If there
    are too many for that, all that raise in a run are left out of the next one.
    """
    excluded: list[Excluded] = []
    suspect: Excluded | None = None
    for turn in range(ROUNDS_MAX):
        try:
            result = run(plan, tuple(excluded), suspect)
        except RowRaisedError as raised:
            whole = uncut(plan, ()) if not turn and uncut is not None else None
            if whole is not None:
                return leaving_out(whole, run)
            if turn < SUSPECTS_MAX:
                suspect = raised.rows[0]
            else:
                excluded += raised.rows
                suspect = None
            continue
        if suspect is None:
            return result
        excluded.append(suspect)
        suspect = None
    return run(plan, tuple(excluded), None)


def _origin(source: str | None, position: int) -> str:
    return f" (row {position} of {source})" if source else ""


def _short(value: Any) -> str:
    try:
        text = ascii_surrogates(repr(value))
    except Exception:  # noqa: BLE001 - a class of the user may fail in any way when it shows itself
        text = object.__repr__(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 3]}..."

"""Failures of rows, told so that a person can act: the entry point, the arguments, the user's own line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from millpond import errors
from millpond.compiler import compiled
from millpond.compiler.compiled import ROW_FUNCTION, CompiledTask, Unbound
from millpond.errors import MillpondError, RowError
from millpond.runtime.intake import BadRow, Work
from millpond.runtime.messages import Failure
from millpond.runtime.plan import EpochPlan, Excluded, FeedPlan
from millpond.runtime.touched import RowKeysError

_COMPILED = compiled.__file__

RAISED = "MP603"
"""The code of a row on which the user's code raised."""

LEFT_OUT = frozenset((RAISED, "MP607"))
"""The codes of rows that are left out where a feed does not want to fail: MP607 are rows of too many keys."""

EXCLUDED_MAX = 1000
"""Rows of an epoch that may raise and be left out; each costs a run of the epoch, so more of them fail it."""

SHOWN_CHARS_MAX = 60
"""Longer arguments are cut in messages."""


class BadKeysError(RowError):
    """A row whose keys can't be brought together, with its place in the input."""

    def __init__(self, error: RowKeysError, work: Work, epoch: EpochPlan) -> None:
        super().__init__(error.code, error.summary, expected=error.expected, found=error.found, hint=error.hint)
        source = epoch.source_name(work.sources[error.row].as_py())
        order, position = int(work.places.order[error.row]), int(work.places.position[error.row])
        self.place = (order, work.feed, source, position)


def refusal(bad: BadRow, feed: FeedPlan) -> Failure:
    """A bad row under the policy `fail`."""
    return Failure(
        "RowError",
        "MP602",
        f"a row of feed `{feed.name}` does not fit entry point `{feed.entry}`",
        expected=f"rows that fit the parameters of `{feed.entry}`",
        found=f"{bad.reason}; row {bad.row[:300]}{_origin(bad.source, bad.position)}",
        hint='clean the rows, or choose on_bad_row="skip" or a dead-letter sink for this feed',
        place=(bad.order, bad.feed, bad.source, bad.position),
    )


def failure_of(error: MillpondError) -> Failure:
    """An error of ours as data that can travel to the driver."""
    told = (type(error).__name__, error.code, error.summary, error.expected, error.found, error.hint)
    return Failure(*told, place=error.place) if isinstance(error, BadKeysError) else Failure(*told)


def row_failure(error: Exception, work: Work, row: int, source: str | None, values: dict[str, Any]) -> Failure:
    """What the user's code raised on a row, with the arguments and the user's own lines."""
    entry = work.task.entry
    told = {name: value for name, value in values.items() if "__" not in name and value is not Unbound.UNBOUND}
    shown = ", ".join(f"{name}={_short(value)}" for name, value in told.items())
    position = int(work.places.position[row])
    where = "".join(
        f"\n    {frame.filename}:{frame.lineno} in {_user_name(frame.name, work.task)}: {frame.line}"
        for frame in _user_frames(error)[-3:]
    )
    return Failure(
        "RowError",
        RAISED,
        f"entry point `{entry}` raised {type(error).__name__}: {str(error)[:300]}",
        found=f"{entry}({shown}){_origin(source, position)}{where}",
        hint="nothing of this epoch was committed; mend the program or the row and start again",
        trace="".join(traceback.format_exception(error))[-4000:],
        place=(int(work.places.order[row]), work.feed, source, position),
    )


def _user_frames(error: Exception) -> list[traceback.FrameSummary]:
    """The lines of the user's own code, and of what it called; not those of the loop that the compiler put around."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename != _COMPILED]
    if len(own) > 1 and own[1].name.partition("__")[0] == ROW_FUNCTION:
        own = own[1:]
    return own


def _user_name(name: str, task: CompiledTask) -> str:
    generated = name in (f"{task.entry}_{task.index}", ROW_FUNCTION) or name.startswith(f"{ROW_FUNCTION}__")
    return task.entry if generated else name


def as_error(failure: Failure) -> MillpondError:
    """The failure as the error that the user sees."""
    kind = getattr(errors, failure.kind, RowError)
    error: MillpondError = kind(
        failure.code, failure.summary, expected=failure.expected, found=failure.found, hint=failure.hint
    )
    return error


class RowRaisedError(RowError):
    """The user's code raised on a row whose feed does not want to fail because of that."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            failure.code, failure.summary, expected=failure.expected, found=failure.found, hint=failure.hint
        )
        order, feed, source, position = failure.place
        self.row = Excluded(order, feed, source, position, failure.summary)


Result = TypeVar("Result")


def leaving_out(steps: int, run: Callable[[tuple[Excluded, ...], Excluded | None], Result]) -> Result:
    """Run an epoch again without each row that raises, as if it had never been fed: nothing that it did is seen.

    A row may raise only because of an earlier row that raises itself at a later step. So with several steps the rows
    before it are tried alone first; it is left out when none of them raises.
    """
    excluded: list[Excluded] = []
    suspect: Excluded | None = None
    while True:
        try:
            result = run(tuple(excluded), suspect)
        except RowRaisedError as raised:
            if raised.row in excluded or len(excluded) == EXCLUDED_MAX:
                raise
            suspect = raised.row
            if steps == 1:
                excluded.append(suspect)
                suspect = None
            continue
        if suspect is None:
            return result
        excluded.append(suspect)
        suspect = None


def _origin(source: str | None, position: int) -> str:
    return f" (row {position} of {source})" if source else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 3]}..."

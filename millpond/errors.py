"""Every exception of Millpond and its code.

An error tells its place, what was expected, what was found, and the next step. The code is stable: people search for
it, tests match on it, and `docs/ERRORS.md` explains it.

>>> print(StateError("MP207", "a key is not of its declared type", expected="int", found="str: 'a'", hint="int(x)"))
MP207 a key is not of its declared type
  expected  int
  found     str: 'a'
  next      int(x)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A span of the user's source, shown with a caret under it."""

    file: str
    line: int
    column: int
    text: str
    width: int = 1

    def render(self) -> str:
        """Return the place as `file:line:column`, the line, and carets below the span."""
        number = str(self.line)
        gutter = " " * len(number)
        carets = " " * self.column + "^" * max(1, self.width)
        return f"  {self.file}:{self.line}:{self.column + 1}\n    {number} | {self.text}\n    {gutter} | {carets}"


class MillpondError(Exception):
    """The base of all errors that Millpond raises; `code` is stable, `str()` is for people."""

    def __init__(
        self,
        code: str,
        summary: str,
        *,
        places: tuple[SourcePlace, ...] = (),
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.code = code
        self.summary = summary
        self.places = places
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        lines = [f"{self.code} {self.summary}"]
        lines += [place.render() for place in self.places]
        for label, text in (("expected", self.expected), ("found", self.found), ("next", self.hint)):
            if text is not None:
                lines.append(f"  {label:<9} {text}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        # Notebooks ask for it: what they would show is a page of our own lines.
        return str(self).splitlines()

    def placed(self, places: tuple[SourcePlace, ...]) -> MillpondError:
        """Return the same error at these places, if it has none."""
        if self.places or not places:
            return self
        return type(self)(
            self.code, self.summary, places=places, expected=self.expected, found=self.found, hint=self.hint
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.summary, self.places, self.expected, self.found, self.hint))


def _rebuild(
    kind: type[MillpondError],
    code: str,
    summary: str,
    places: tuple[SourcePlace, ...],
    expected: str | None,
    found: str | None,
    hint: str | None,
) -> MillpondError:
    return kind(code, summary, places=places, expected=expected, found=found, hint=hint)


class ProgramError(MillpondError):
    """MP1xx: the program can't be compiled as it is written."""


class StateError(MillpondError):
    """MP2xx: a key or a value does not fit its state element, or a local store can't be used."""


class MigrationError(StateError):
    """MP262 to 266: an entry of a state element can't be brought over to another declaration."""


class DamagedStoreError(StateError):
    """MP225: a local store can't be believed; it is only a copy, so the epoch is tried again on a new one."""


class StorageError(MillpondError):
    """MP3xx: durable bytes are damaged, missing, or can't be written."""


class MissingError(StorageError):
    """MP304: nothing is stored under a name."""


class DamagedError(StorageError):
    """MP301, 310: the bytes under a name are not those that were written."""


class DamagedLogError(StorageError):
    """MP334: an append-only log lost something that had been made durable."""


class NotPlainError(StorageError):
    """MP306: a link, a folder or a special file stands where a plain file belongs."""


class NoCheckpointError(StorageError):
    """MP350: there is no checkpoint at a place."""


class EpochError(MillpondError):
    """MP4xx: an epoch can't be run or committed without loss or double application."""


class FeedError(MillpondError):
    """MP5xx: a feed, a sink or an option does not fit the program."""


class RowError(MillpondError):
    """MP6xx: a row of a feed is bad, or the user's code raised on it."""


class WindowError(MillpondError):
    """MP608, 61x, 62x, 64x, 65x: a window, an aggregate or a join is not what it must be, or gets what does not fit."""


class EventTimeError(MillpondError):
    """MP63x: the event time of feeds is not described as it must be, or can't be gone on with."""


class ConnectError(MillpondError):
    """MP67x: the two sides of a Spark Connect session do not hear each other, or one of them failed."""


class ElasticError(MillpondError):
    """MP68x: key groups can't be owned as somebody wants, or an option of elastic jobs is not one."""


class SinkError(MillpondError):
    """MP80x: a sink can't take what it is given, is not described as it must be, or is taken by another driver."""


class SourceError(MillpondError):
    """MP81x: what a source is asked for can't be read, or not for this entry point."""


class ReadError(MillpondError):
    """MP83x: state that was opened without a job can't be read as it was asked for."""


class MetricsError(MillpondError):
    """MP84x: what a job tells can't be shown where it was asked for."""


class ConnectorError(MillpondError):
    """MP845, 846: Spark has no connector as it was asked for."""


class ServeError(MillpondError):
    """MP88x, MP89x: a follower can't answer, or is asked for what it does not serve."""


class Passing(BaseException):
    """What tells nothing of the row that is at work: nobody may catch it who catches whatever rows raise."""


class Aborted(Exception):  # noqa: N818 - it is the program's own answer, not a fault
    """What `self.abort(reason)` raises: the row is refused by the program itself, and leaves no trace."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class QueryStopped(Exception):  # noqa: N818 - somebody wants it so, it is not a fault
    """Ends the work of a client on a batch whose query was stopped meanwhile, before anything of it is committed."""


class LoopError(MillpondError):
    """MP85x to MP87x: a loop, a vertex or a graph is not what it must be, or gets what does not fit."""


class SetupError(MillpondError):
    """MP7xx: the machine lacks something that Millpond needs."""

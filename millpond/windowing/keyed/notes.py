"""What a checkpoint notes of the windows that state was made for, and which of them another program goes on with.

Windows are known by what they are: one goes on under another name, and another kind or size under an old name is
another window. Only windows with functions inside, of which nothing is known, must keep their names too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.periodic import Periodic


class WindowNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A window: its name, what it is, and, if it came later than others, the last time that a row before it can have.

    What lies up to `since` was not seen by it.
    """

    name: str
    is_: str = msgspec.field(name="is")
    since: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.is_}" if self.name else self.is_


class WindowsNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The windows of a handler, the aggregates by name, and whether their rows are taken in order."""

    windows: tuple[WindowNote, ...]
    aggregates: tuple[tuple[str, str], ...]
    ordered: bool = False

    def __str__(self) -> str:
        aggregates = ", ".join(f"{name}={is_}" for name, is_ in self.aggregates)
        return f"{', '.join(map(str, self.windows))}; {aggregates}"

    @property
    def since(self) -> dict[str, int]:
        """From when on windows know all rows, of those that came later than others."""
        return {window.name: window.since for window in self.windows if window.since is not None}


class NotCarriedError(Exception):
    """Windows that can't go on with what is stored: why not."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What becomes of the windows of a handler: `kept` are new names by old ones, `note` is what holds from then on."""

    old: WindowsNote
    kept: Mapping[str, str]
    note: WindowsNote


def carried(old: WindowsNote, new: WindowsNote, windows: Mapping[str, Any], *, late: bool, seen: int | None) -> Carried:
    """Find out which windows go on; no row that came before has a time after `seen`, and rows may be `late`."""
    kept = _kept(old, new, windows)
    since = old.since
    taken = {now: since.get(before) for before, now in kept.items()}
    noted = tuple(msgspec.structs.replace(one, since=taken.get(one.name, seen)) for one in new.windows)
    if kept:
        _check(old, new)
    added = [one.name for one in new.windows if one.name not in taken and isinstance(windows[one.name], Session)]
    if late and added and seen is not None:
        raise NotCarriedError(
            "a late row could join a session to rows from before it was added, which it does not know: give "
            f"{f'`{added[0]}`' if added[0] else 'it'} a handler of its own"
        )
    return Carried(old, kept, msgspec.structs.replace(new, windows=noted))


def _kept(old: WindowsNote, new: WindowsNote, windows: Mapping[str, Any]) -> dict[str, str]:
    """New names of the windows that stay, by their old ones; those under the same name come first."""
    before = {one.name: one.is_ for one in old.windows}
    kept = {one.name: one.name for one in new.windows if before.get(one.name) == one.is_}
    for one in new.windows:
        if one.name in kept.values() or not _said_whole(windows[one.name]):
            continue
        found = next((name for name, is_ in before.items() if is_ == one.is_ and name not in kept), None)
        if found is not None:
            kept[found] = one.name
    return kept


def _check(old: WindowsNote, new: WindowsNote) -> None:
    """Refuse aggregates of which open windows know nothing, and rows that would have to be kept in another way."""
    before = dict(old.aggregates)
    for name, is_ in new.aggregates:
        if name not in before:
            raise NotCarriedError(f"open windows know nothing of `{name}`: give it a handler of its own")
        if before[name] != is_:
            raise NotCarriedError(f"open windows know another `{name}`: give the new one a handler of its own")
    if old.ordered != new.ordered:
        what = "rows were added to slices as they came, and some window or aggregate now needs them in order"
        if old.ordered:
            what = "rows waited to be taken in order, and nothing needs that any more"
        raise NotCarriedError(f"{what}: give what is new a handler of its own")


def _said_whole(window: Any) -> bool:
    """Say whether the text of a window says all of it: no function of the user is part of it."""
    return isinstance(window, Session) or (isinstance(window, Periodic) and isinstance(window.measure, str))

"""Changes of an element as they are committed, as server-sent events that can be resumed at any epoch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from millpond.checkpoint.read.entries import Change, feed
from millpond.checkpoint.read.history import History
from millpond.errors import EpochError, MillpondError
from millpond.serve.follower import Follower, session_of
from millpond.serve.http.answers import plainly, refused
from millpond.serve.http.options import Limits
from millpond.serve.http.routes import checked_element, key_of
from millpond.storage.open import open_storage

HEARTBEAT_S: Final = 15.0
"""After so long without a change a comment is sent, so that nobody takes the line for dead."""


class Changes:
    """Tells whoever listens what each epoch changed of an element."""

    def __init__(self, follower: Follower, checkpoint: str, limits: Limits) -> None:
        self._follower = follower
        self._storage = open_storage(checkpoint)
        self._limits = limits
        self._listeners = 0

    async def stream(self, request: Request) -> Response:
        """Begin after the epoch `since`, or that of the last event that the client has, or now."""
        name = checked_element(request)
        if self._listeners >= self._limits.listeners:
            return refused(503, "MP896", "too many listen already", {"retry-after": "5"})
        since = request.headers.get("last-event-id") or request.query_params.get("since")
        if since is None:
            since = self._follower.session
        begun = await asyncio.to_thread(self._follower.wait, min_epoch=since, within="0 s")
        at = min(int(since.partition(".")[0]), begun)
        async with self._follower.reading() as state:
            table = state[name].plain()
            text = request.query_params.get("key")
            wanted = None if text is None else key_of(table, text)
            group = None if text is None or not table.shows.keyed else table.shows.layout.group_of(wanted)
        groups = None if group is None else range(group, group + 1)
        lines = self._lines(name, at, text is not None, wanted, groups)
        return StreamingResponse(lines, 200, {"x-accel-buffering": "no"}, "text/event-stream")

    async def _lines(self, name: str, at: int, one: bool, wanted: Any, groups: range | None) -> AsyncIterator[str]:
        self._listeners += 1
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        end = self._follower.on_epoch(lambda: loop.call_soon_threadsafe(woken.set))
        try:
            yield f"retry: 1000\n: following {name} after epoch {at}\n\n"
            while True:
                woken.clear()
                if self._follower.epoch < at:
                    yield _event("reset", self._follower.session, {"epoch": self._follower.epoch})
                    at = self._follower.epoch
                elif self._follower.epoch > at:
                    told, at = await asyncio.to_thread(self._told, name, at, one, wanted, groups)
                    for line in told:
                        yield line
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await woken.wait()
                except TimeoutError:
                    yield ": nothing new\n\n"
        finally:
            self._listeners -= 1
            end()

    def _told(self, name: str, at: int, one: bool, wanted: Any, groups: range | None) -> tuple[list[str], int]:
        """Return events for what was committed after an epoch, and the epoch that they lead to."""
        history = History(self._storage)
        until = history.point(min(self._follower.epoch, history.newest()))
        try:
            since = history.point(at) if at in history.epochs or not at else None
            if since is None:
                raise EpochError("MP450", f"epoch {at} is not kept in this checkpoint any more")
            found = [change for change in feed(history, since, until, name, groups) if not one or change.key == wanted]
        except MillpondError as error:
            # Whoever listens reads the state again, and goes on from there.
            told = {"epoch": until.epoch, "code": error.code, "summary": error.summary}
            return [_event("reset", session_of(until.epoch, until.hash), told)], until.epoch
        last = session_of(until.epoch, until.hash)
        events = _events(found, history)
        if all(change.epoch != until.epoch for change in found):
            events.append(_event("epoch", last, {"epoch": until.epoch}))
        return events, until.epoch


def _events(found: list[Change], history: History) -> list[str]:
    """Return an event for each epoch that changed something: whoever got it can go on after that epoch."""
    by_epoch: dict[int, list[Change]] = {}
    for change in found:
        by_epoch.setdefault(change.epoch, []).append(change)
    lines = []
    for epoch in sorted(by_epoch):
        told = {"epoch": epoch, "changes": [_told_of(change) for change in by_epoch[epoch]]}
        known = history.hash_of(epoch)
        lines.append(_event("changes", str(epoch) if known is None else session_of(epoch, known), told))
    return lines


def _told_of(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": change.kind.value, "key": plainly(change.key)}
    told |= {} if change.instance is None else {"instance": change.instance}
    return told | {"old": plainly(change.old), "new": plainly(change.new)}


def _event(kind: str, name: str, data: dict[str, Any]) -> str:
    return f"id: {name}\nevent: {kind}\ndata: {msgspec.json.encode(data).decode()}\n\n"

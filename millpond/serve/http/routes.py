"""What can be asked: state by key and by range, several keys at one epoch, and entry points that change nothing."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from itertools import islice
from typing import Any, Final, get_origin

import msgspec
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from millpond.checkpoint.read.elements import Entry
from millpond.checkpoint.read.keytexts import parse_key
from millpond.engine.statetables import entry_batches
from millpond.errors import Aborted, MillpondError, ServeError
from millpond.front.opened import OpenCheckpoint
from millpond.front.tables import StateTable
from millpond.lengths import length_us
from millpond.serve.entrypoints import Served
from millpond.serve.followed import Followed
from millpond.serve.follower import WITHIN, Follower, refused_length, session_of
from millpond.serve.http.answers import answered, failed, plainly, refused, unchanged
from millpond.serve.http.guard import token_of
from millpond.serve.http.options import Limits
from millpond.state.codec.typenames import type_text

ARROW: Final = "application/vnd.apache.arrow.stream"
PAGE: Final = 100
"""So many entries are in a page if nobody says how many."""

_LOG = logging.getLogger("millpond.serve")
_WISHES: Final = frozenset({"min_epoch", "max_age", "at", "within"})

Handler = Callable[[Request], Awaitable[Response]]


class Routes:
    """The answers of one follower."""

    def __init__(self, follower: Follower, limits: Limits) -> None:
        self._follower = follower
        self._limits = limits

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - every route takes one
        """Say whether the follower goes on, and how far it is; 503 if something keeps it from following."""
        follower = self._follower
        problem = follower.problem
        told: dict[str, Any] = {"epoch": follower.epoch, "age_s": round(follower.age_s, 3)}
        told |= {} if problem is None else {"error": {"code": problem.code, "summary": problem.summary}}
        return answered(told, status=200 if problem is None else 503)

    async def elements(self, request: Request) -> Response:
        """List the elements of state, and the epoch."""
        _check_right(request, "read")
        async with self._reading(request) as state:
            token = token_of(request)
            shown = [_described(state[name]) for name in state if token.may("read", name)]
            return answered({**_of(state), "elements": shown}, session=_session(state))

    async def entry(self, request: Request) -> Response:
        """Return the value of one key, or of an element that has none."""
        name = checked_element(request)
        async with self._reading(request) as state:
            if (old := _unchanged(request, state)) is not None:
                return old
            table = _table(state, name, request)
            text = request.path_params.get("key")
            key = parse_key(table.shows, text)
            found = _lookup(table, key)
            told = {**_of(state), "element": name, "key": plainly(key) if text is not None else None}
            return answered({**told, **found}, status=200 if found["found"] else 404, session=_session(state))

    async def page(self, request: Request) -> Response:
        """Return entries of an element in the order of their keys: a page of JSON, or all of the range as Arrow."""
        name = checked_element(request)
        async with self._reading(request) as state:
            if (old := _unchanged(request, state)) is not None:
                return old
            table = _table(state, name, request)
            if not table.shows.has_keys:
                return await self.entry(request)
            limit = _number(request, "limit", PAGE, self._limits.entries)
            start, stop = (key_of(table, request.query_params.get(bound)) for bound in ("start", "stop"))
            arrow = ARROW in request.headers.get("accept", "")
            skip = request.query_params.get("after")
            after = key_of(table, skip)
            found = await asyncio.to_thread(_scan, table, start if after is None else after, stop, limit + 2)
            if after is not None and found and found[0][0] == after:
                found = found[1:]
            shown, more = found[:limit], len(found) > limit
            if arrow:
                return Response(_as_arrow(table, shown), 200, {"etag": f'"{_session(state)}"'}, ARROW)
            entries = [{"key": plainly(key), "value": plainly(value)} for key, value in shown]
            following = {"after": _key_text(shown[-1][0])} if more and shown else {}
            return answered({**_of(state), "element": name, "entries": entries, **following}, session=_session(state))

    async def several(self, request: Request) -> Response:
        """Return the values of several keys of several elements, all at one epoch."""
        _check_right(request, "read")
        wanted = _decoded(await request.body(), _Wanted)
        if sum(len(one.keys) for one in wanted.get) > self._limits.entries:
            raise _unfit(f"at most {self._limits.entries} keys", "more of them")
        async with self._reading(request) as state:
            told = []
            for one in wanted.get:
                _check_right(request, "read", one.element)
                table = _table(state, one.element, request)
                keys = [_from_json(table, key) for key in one.keys]
                found = [{"key": plain, **_lookup(table, key)} for plain, key in zip(one.keys, keys, strict=True)]
                told.append({"element": one.element, "entries": found})
            return answered({**_of(state), "got": told})

    async def ask(self, request: Request) -> Response:
        """Run an entry point that changes nothing, with the arguments of the body, and return its reply."""
        _check_right(request, "run")
        body = await request.body()
        name = request.path_params["entry"]
        async with self._reading(request) as state:
            if not isinstance(state, Followed):
                raise _unfit("entry points at the newest epoch, without `at`", "an older epoch")
            served = state.answering.served(name)
            arguments = _arguments(served, body)
            try:
                reply = await asyncio.to_thread(state.ask, name, **arguments)
            except Aborted as refusal:
                return answered({**_of(state), "aborted": refusal.reason}, status=422)
            except MillpondError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises is its answer
                _LOG.warning("%s raised %s", name, type(error).__name__, exc_info=error)
                return refused(422, "MP898", f"{name} raised {type(error).__name__}")
            return answered({**_of(state), "reply": plainly(reply)})

    def _reading(self, request: Request) -> AbstractAsyncContextManager[Followed | OpenCheckpoint]:
        """Open the epoch that a request asks for."""
        wishes: dict[str, Any] = {name: text for name, text in request.query_params.items() if name in _WISHES}
        if "at" in wishes and wishes["at"].isdecimal():
            wishes["at"] = int(wishes["at"])
        within_us = length_us(wishes.pop("within", WITHIN), "within", refused_length)
        longest = timedelta(seconds=self._limits.seconds / 2)
        return self._follower.reading(**wishes, within=min(timedelta(microseconds=within_us), longest))


def guarded(handler: Handler) -> Handler:
    """Return a route whose errors are answers."""

    async def route(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - no stack trace leaves this process
            if not isinstance(error, MillpondError):
                _LOG.exception("a request failed")
            return failed(error)

    return route


class _Get(msgspec.Struct, forbid_unknown_fields=True):
    element: str
    keys: list[Any]


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    get: list[_Get]


def _check_right(request: Request, right: str, element: str | None = None) -> None:
    if not token_of(request).may(right, element):
        raise _ForbiddenError(right, element)


class _ForbiddenError(ServeError):
    """A token does not allow what is asked."""

    def __init__(self, right: str, element: str | None) -> None:
        what = right if element is None else f"{right} `{element}`"
        super().__init__("MP899", "the token does not allow this", expected=f"the right to {what}", found="none")


def checked_element(request: Request) -> str:
    """Return the element that a path names, if the token may read it."""
    name: str = request.path_params["element"]
    _check_right(request, "read", name)
    return name


def _of(state: OpenCheckpoint) -> dict[str, Any]:
    return {"epoch": state.epoch, "session": _session(state)}


def _session(state: OpenCheckpoint) -> str:
    return session_of(state.epoch, state.hash)


def _unchanged(request: Request, state: OpenCheckpoint) -> Response | None:
    known = [tag.strip().removeprefix("W/").strip('"') for tag in request.headers.get("if-none-match", "").split(",")]
    return unchanged(_session(state)) if _session(state) in known else None


def _table(state: OpenCheckpoint, name: str, request: Request) -> StateTable:
    table = state[name].plain()
    instance = request.query_params.get("instance")
    if instance is None:
        return table
    return table.instance(int(instance) if instance.isdecimal() and len(instance) < 10 else -1)


def _described(table: StateTable) -> dict[str, Any]:
    reader = table.shows
    told = {"name": table.name, "kind": reader.schema.kind, "key": reader.schema.key, "value": reader.schema.value}
    return told | ({} if table.instances is None else {"instances": table.instances})


def _lookup(table: StateTable, key: Any) -> dict[str, Any]:
    missing = object()
    found = table.get(key, missing) if table.shows.has_keys else table.get(default=missing)
    return {"found": False} if found is missing else {"found": True, "value": plainly(found)}


def _scan(table: StateTable, start: Any, stop: Any, limit: int) -> list[tuple[Any, Any]]:
    return list(islice(table.scan(start, stop, limit=limit), limit))


def key_of(table: StateTable, text: str | None) -> Any:
    """Read a key from text; None if there is none."""
    return None if text is None else parse_key(table.shows, text)


def _key_text(key: Any) -> str:
    """Say a key as the next request says it."""
    plain = plainly(key)
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _from_json(table: StateTable, key: Any) -> Any:
    """Return a key of JSON as the element has it: numbers, truths and arrays as such, all else as text."""
    hint = table.shows.codec.hint
    is_text = isinstance(key, str)
    if is_text == (hint in (int, bool) or get_origin(hint) is tuple):
        # As text it might be taken for another key.
        raise _unfit(f"keys of type {type_text(hint)}", f"{msgspec.json.encode(key)[:60]!r}")
    return parse_key(table.shows, key if is_text else msgspec.json.encode(key).decode())


def _number(request: Request, name: str, usual: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return min(usual, most)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:12]) <= most):
        raise _unfit(f"{name} from 1 to {most}", ascii(text)[:40])
    return int(text)


def _as_arrow(table: StateTable, found: list[tuple[Any, Any]]) -> bytes:
    sink = io.BytesIO()
    batches = list(entry_batches(table.shows, (Entry(None, key, value) for key, value in found)))
    with pa.ipc.new_stream(sink, batches[0].schema if batches else pa.schema([])) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise _unfit("a body of JSON as the OpenAPI page tells", str(error)[:200]) from None


def _arguments(served: Served, body: bytes) -> dict[str, Any]:
    """Read the arguments of an entry point from an object of JSON, by the types of its parameters."""
    given = _decoded(body or b"{}", dict[str, msgspec.Raw])
    hints = dict(served.point.parameters)
    unknown = given.keys() - hints.keys()
    if unknown:
        raise _unfit(f"arguments {', '.join(hints) or 'none'}", ", ".join(sorted(unknown))[:80])
    return {name: _decoded(bytes(raw), hints[name]) for name, raw in given.items()}


def _unfit(expected: str, found: str) -> ServeError:
    return ServeError("MP897", "this can't be asked", expected=expected, found=found)

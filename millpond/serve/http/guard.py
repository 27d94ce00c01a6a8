"""What stands before every route: hosts, origins, tokens, sizes, rates, and how much runs at the same time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millpond.clock import Clock, SystemClock
from millpond.errors import ServeError
from millpond.serve.http.answers import refused
from millpond.serve.http.options import RIGHTS, Limits, Token

OPEN: Final = frozenset({"/health"})
"""What answers without a token."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
CALLERS_MAX: Final = 4096
"""The rates of so many callers are remembered."""

ANYBODY: Final = Token("anybody", b"", frozenset(RIGHTS))
_CLOCK: Final = SystemClock()
_SAFE: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


class Guard:
    """Lets in who may come in; the rest gets a code and no more."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Sequence[Token],
        hosts: frozenset[str],
        limits: Limits,
        clock: Clock = _CLOCK,
    ) -> None:
        self._app, self._tokens, self._hosts, self._limits, self._clock = app, tuple(tokens), hosts, limits, clock
        self._running = 0
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _SAFE if pair[0] not in told)]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, safely)
            return
        listens = scope["path"].startswith("/changes/")
        self._running += not listens
        try:
            await self._limited(scope, receive, safely, listens=listens)
        finally:
            self._running -= not listens

    async def _limited(self, scope: Scope, receive: Receive, send: Send, *, listens: bool) -> None:
        """Run a request with what it may take of bytes and time."""
        taken = 0
        begun = False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limits.body_bytes:
                raise ServeError("MP892", "the request is too large")
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            async with asyncio.timeout(None if listens else self._limits.seconds):
                await self._app(scope, counted, noted)
        except TimeoutError:
            if not begun:
                await refused(504, "MP893", "the answer takes too long")(scope, receive, send)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to who may not come in; None for all others."""
        headers = Headers(scope=scope)
        host = host_of(headers.get("host", ""))
        if host not in self._hosts:
            return refused(421, "MP894", "this server does not answer for that host")
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in ("GET", "HEAD") and host_of(urlsplit(origin).netloc) != host:
            return refused(403, "MP894", "pages of other sites may not ask this server")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._limits.body_bytes:
            return refused(413, "MP892", "the request is too large")
        token = self._token(headers)
        if token is None and scope["path"] not in OPEN:
            return refused(401, "MP895", "a token is asked for", {"www-authenticate": "Bearer"})
        scope["millpond.token"] = token
        caller = token.name if token not in (None, ANYBODY) else str((scope.get("client") or ("", 0))[0])
        if not self._within_rate(caller):
            return refused(429, "MP896", "these are too many requests a second", {"retry-after": "1"})
        if self._running >= self._limits.requests and scope["path"] not in OPEN:
            return refused(503, "MP896", "too many requests are being answered", {"retry-after": "1"})
        return None

    def _token(self, headers: Headers) -> Token | None:
        if not self._tokens:
            return ANYBODY
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        known = [token for token in self._tokens if token.knows(secret.strip())]
        return known[0] if known else None

    def _within_rate(self, caller: str) -> bool:
        rate = self._limits.rate
        if not rate:
            return True
        now = self._clock.ticks()
        room, since = self._buckets.pop(caller, (max(rate, 1.0), now))
        room = min(max(rate, 1.0), room + (now - since) * rate)
        self._buckets[caller] = (room - 1 if room >= 1 else room), now
        while len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        return room >= 1


def host_of(netloc: str) -> str:
    """Return a host without its port; "" if it is none."""
    try:
        return (urlsplit(f"//{netloc}").hostname or "").lower()
    except ValueError:
        return ""


def token_of(request: Any) -> Token:
    """Return who asks."""
    token: Token = request.scope["millpond.token"]
    return token

"""The server of a follower: its routes behind its guard, on loopback unless asked otherwise."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from millpond.errors import ServeError
from millpond.serve.follower import Follower
from millpond.serve.http.answers import answered, refused
from millpond.serve.http.events import Changes
from millpond.serve.http.guard import LOOPBACK, Guard
from millpond.serve.http.openapi import openapi
from millpond.serve.http.options import Limits, Token
from millpond.serve.http.routes import Routes, guarded

_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, who may ask it by which names, and its certificate if it speaks TLS."""

    host: str = "127.0.0.1"
    port: int = 8088
    names: frozenset[str] = frozenset()
    certificate: Path | None = None
    key: Path | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether nobody from outside of this machine can ask."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def application(
    follower: Follower,
    checkpoint: str,
    *,
    tokens: Sequence[Token] = (),
    names: frozenset[str] = frozenset(),
    limits: Limits | None = None,
) -> ASGIApp:
    """Return a follower as an ASGI application, for whatever serves those.

    `names` are hosts by which it may be asked besides those of loopback.
    """
    limits = limits or Limits()
    routes, changes = Routes(follower, limits), Changes(follower, checkpoint, limits)
    entries = {} if follower.answering is None else follower.answering.entries
    page = openapi(_VERSION, entries)

    async def told(request: Request) -> Response:  # noqa: ARG001 - every route takes one
        return answered(page)

    async def missed(request: Request, error: Exception) -> Response:  # noqa: ARG001 - likewise
        status = error.status_code if isinstance(error, HTTPException) else 500
        return refused(status, "MP897", "there is nothing to ask here" if status == 404 else "this can't be asked so")

    app = Starlette(
        routes=[
            Route("/health", guarded(routes.health)),
            Route("/openapi.json", told),
            Route("/state", guarded(routes.elements), methods=["GET"]),
            Route("/state", guarded(routes.several), methods=["POST"]),
            Route("/state/{element}", guarded(routes.page)),
            Route("/state/{element}/{key:path}", guarded(routes.entry)),
            Route("/changes/{element}", guarded(changes.stream)),
            Route("/{entry}", guarded(routes.ask), methods=["POST"]),
        ],
        exception_handlers={HTTPException: missed},
    )
    return Guard(app, tokens=tokens, hosts=LOOPBACK | names, limits=limits)


def serve(
    follower: Follower,
    checkpoint: str,
    address: Address,
    *,
    tokens: Sequence[Token] = (),
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a follower until the process is told to end; beyond loopback nothing is served without tokens (MP880).

    Whoever is to know is told the address when it is `ready`; port 0 is any that is free.
    """
    limits = limits or Limits()
    if not address.is_loopback and not tokens:
        raise ServeError(
            "MP880",
            "a server that others can reach asks for tokens",
            expected="--tokens FILE, or a host of loopback such as 127.0.0.1",
            found=f"host {address.host} and no tokens",
            hint="docs/SERVING.md shows the file of tokens, and a proxy in front",
        )
    every = address.host in ("0.0.0.0", "::")  # noqa: S104 - compared, and not listened to unasked
    names = address.names | (frozenset() if every else frozenset({address.host}))
    app = application(follower, checkpoint, tokens=tokens, names=names, limits=limits)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=16 << 10,
        limit_concurrency=limits.requests + limits.listeners,
    )
    with _listening(address) as listening:
        scheme = "http" if address.certificate is None else "https"
        host, port = listening.getsockname()[:2]
        if ready is not None:
            ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        uvicorn.Server(config).run(sockets=[listening])


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ServeError(
            "MP879",
            "the server can't listen there",
            expected="a host of this machine and a port that is free",
            found=f"{address.host}:{address.port}: {error.strerror or error}",
            hint="choose another --port; 0 is any that is free",
        ) from error

"""Answers as bytes: JSON of what state holds, errors by code, and which epoch it was.

>>> plainly({1: b"mill", "a": {2.5}})
{'1': '6d696c6c', 'a': [2.5]}
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from millpond.checkpoint.read.plain import as_json
from millpond.errors import (
    DamagedStoreError,
    MillpondError,
    RowError,
    StateError,
)

STATUS: Final[Mapping[str, int]] = {
    "MP240": 404,
    "MP241": 400,
    "MP243": 400,
    "MP425": 404,
    "MP450": 410,
    "MP451": 410,
    "MP833": 400,
    "MP881": 404,
    "MP882": 403,
    "MP883": 400,
    "MP884": 400,
    "MP886": 412,
    "MP887": 409,
    "MP888": 503,
    "MP892": 413,
    "MP897": 400,
    "MP899": 403,
}
"""What a client can do about an error, by its code; all others are faults of the server's side."""

_TIMES: Final = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
_NATIVE: Final = (bytes, decimal.Decimal, uuid.UUID, *_TIMES)


def plainly(value: Any) -> Any:
    """Return a value made of what JSON has: classes as objects of their fields, the rest as docs/STATE.md tells."""
    return as_json(msgspec.to_builtins(value, builtin_types=_NATIVE, enc_hook=_container))


def _container(value: Any) -> Any:
    """Return a container of state as what it holds."""
    return dict(value) if hasattr(value, "keys") else list(value) if hasattr(value, "__iter__") else repr(value)


def answered(content: Any, *, status: int = 200, session: str | None = None) -> Response:
    """Return an answer in JSON; with the session of the epoch that it is of, clients may ask whether it still holds."""
    headers = {} if session is None else {"etag": f'"{session}"', "cache-control": "no-cache", "vary": "accept"}
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def unchanged(session: str) -> Response:
    """Say that the answer is what it was."""
    return Response(None, 304, {"etag": f'"{session}"', "cache-control": "no-cache"})


def refused(status: int, code: str, summary: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error that says no more than its code and what happened."""
    body = msgspec.json.encode({"error": {"code": code, "summary": summary}})
    return Response(body, status, dict(headers or {}), "application/json")


def failed(error: BaseException) -> Response:
    """Return the answer for an error: codes and their words, and of all else only that something is wrong."""
    status = STATUS.get(error.code) if isinstance(error, MillpondError) else None
    if isinstance(error, MillpondError) and status is not None:
        told = {"code": error.code, "summary": error.summary, "expected": error.expected, "found": error.found}
        return answered({"error": {name: text for name, text in told.items() if text}}, status=status)
    if isinstance(error, StateError | RowError) and not isinstance(error, DamagedStoreError):
        return refused(400, error.code, error.summary)
    if isinstance(error, MillpondError):
        return refused(503, error.code, error.summary)
    return refused(500, "MP890", "the server failed; its log says how")

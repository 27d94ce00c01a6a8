"""The OpenAPI page of a server: its routes, and its entry points with the types of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from millpond.serve.entrypoints import Served

Page = dict[str, Any]

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_EPOCH: Final = {"epoch": _NUMBER, "session": _TEXT}
_VALUE: Final = {"description": "as docs/STATE.md tells"}
_SESSION: Final = {"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9a-f]{16})?$"}
_LENGTH: Final = {"type": "string", "pattern": "^[0-9]{1,6} ?(ms|s|min)$"}
_WISHES: Final = (
    ("min_epoch", "An epoch, or the session of an earlier answer: wait for it or a later one.", _SESSION),
    ("max_age", 'At most so long ago somebody looked for newer epochs, as in "100 ms".', _LENGTH),
    ("at", "An older epoch that is kept, or a savepoint.", _TEXT),
    ("within", 'How long to wait, as in "2 s"; no longer than half of what an answer may take.', _LENGTH),
)


def openapi(version: str, entries: Mapping[str, Served]) -> Page:
    """Return the page that tells what can be asked."""
    kinds, components = _schemas(entries)
    paths: Page = {
        "/health": {"get": _route("Whether the follower goes on", {"epoch": _NUMBER}, also=(503,), wishes=False)},
        "/state": {
            "get": _route("All elements", {**_EPOCH, "elements": {"type": "array", "items": {"type": "object"}}}),
            "post": _route("Several keys at one epoch", {**_EPOCH, "got": {"type": "array"}}, body=_several()),
        },
        "/state/{element}": {"get": _page()},
        "/state/{element}/{key}": {"get": _point()},
        "/changes/{element}": {"get": _changes()},
    }
    for name, served in entries.items():
        reply = kinds[name, "reply"]
        told = _route(
            (served.point.function.__doc__ or f"Run {name}, which changes nothing").strip().partition("\n")[0],
            {**_EPOCH, "reply": reply},
            body=_arguments(served, kinds),
            also=(403, 422),
        )
        paths[f"/{name}"] = {"post": told | {"operationId": name}}
    schemas = {**components, "Error": _error()}
    security = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Millpond", "version": version},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": security},
        "security": [{}, {"token": []}],
    }


def _schemas(entries: Mapping[str, Served]) -> tuple[dict[tuple[str, str], Page], Page]:
    """Return a schema for each parameter and reply; of types that JSON has no schema for, one that takes anything."""
    hints = {(name, one): hint for name, served in entries.items() for one, hint in served.point.parameters}
    hints |= {(name, "reply"): served.point.returns for name, served in entries.items()}
    found: dict[tuple[str, str], Page] = {}
    components: Page = {}
    for place, hint in hints.items():
        try:
            (schema,), more = msgspec.json.schema_components([hint], ref_template="#/components/schemas/{name}")
        except (TypeError, ValueError):
            schema, more = {}, {}
        found[place] = schema
        components |= more
    return found, components


def _route(
    summary: str,
    properties: Page,
    *,
    body: Page | None = None,
    also: tuple[int, ...] = (),
    wishes: bool = True,
    parameters: tuple[Page, ...] = (),
) -> Page:
    fails = (400, 401, 403, 404, 409, 410, 412, 413, 421, 422, 429, 503, 504) if wishes else (401, 421, 429)
    content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
    responses: Page = {"200": {"description": "the answer", "content": content}}
    for status in sorted({*fails, *also}):
        error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        responses[str(status)] = {"description": "refused, by a code", "content": error}
    told: Page = {"summary": summary, "responses": responses}
    queries = [_query(name, text, schema) for name, text, schema in _WISHES] if wishes else []
    if queries or parameters:
        told["parameters"] = [*parameters, *queries]
    if body is not None:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return told


def _query(name: str, text: str, schema: Page) -> Page:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _path(name: str) -> Page:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _page() -> Page:
    entry = {"type": "object", "properties": {"key": _VALUE, "value": _VALUE}}
    bounds = tuple(_query(name, "A key.", _TEXT) for name in ("start", "stop", "after"))
    limit = _query("limit", "How many entries.", {"type": "integer", "minimum": 1})
    found = {**_EPOCH, "entries": {"type": "array", "items": entry}, "after": _TEXT}
    told = _route("Entries in the order of keys", found, parameters=(_path("element"), *bounds, limit, _instance()))
    return _with_tags(told)


def _point() -> Page:
    found = {**_EPOCH, "key": _VALUE, "value": _VALUE, "found": {"type": "boolean"}}
    told = _route("The value of a key", found, parameters=(_path("element"), _path("key"), _instance()))
    # A key that is not there is an answer, with its epoch.
    del told["responses"]["404"]["content"]
    return _with_tags(told)


def _with_tags(told: Page) -> Page:
    told["responses"]["304"] = {"description": "what the client has holds still"}
    return told


def _instance() -> Page:
    return _query("instance", "One instance of partial state.", _NUMBER)


def _changes() -> Page:
    since = _query("since", "The epoch after which to begin.", _TEXT)
    parameters = (_path("element"), _query("key", "A key.", _TEXT), since)
    told = _route("Changes as they are committed", {}, parameters=parameters)
    told["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
    return told


def _several() -> Page:
    get = {"element": _TEXT, "keys": {"type": "array"}}
    one = {"type": "object", "properties": get, "required": ["element", "keys"], "additionalProperties": False}
    whole = {"get": {"type": "array", "items": one}}
    return {"type": "object", "properties": whole, "required": ["get"], "additionalProperties": False}


def _arguments(served: Served, kinds: Mapping[tuple[str, str], Page]) -> Page:
    point = served.point
    defaults = dict(point.defaults)
    names = [name for name, _ in point.parameters]
    return {
        "type": "object",
        "properties": {name: kinds[point.name, name] for name in names},
        "required": [name for name in names if name not in defaults],
        "additionalProperties": False,
    }


def _error() -> Page:
    told = {"code": _TEXT, "summary": _TEXT, "expected": _TEXT, "found": _TEXT}
    return {"type": "object", "properties": {"error": {"type": "object", "properties": told}, "aborted": _TEXT}}

"""Storage in a Redis server: one hash per checkpoint, a field per name, put by HSETNX, which one wins.

What we ask of the server. It must not lose what it acknowledged: `appendonly yes` with `appendfsync always`, and no
eviction of keys; we look when the storage is opened and refuse otherwise (MP338), unless the address says
`?durability=relaxed`, which is for trials and for servers whose loss is bounded by other means. A replica that takes
over may lack the last writes, because replication is asynchronous: then a commit can be lost, and we can't see it.
Whatever else damages a value is seen by the frame around it.

Nothing is sent twice: a put whose answer was lost raises, for a second HSETNX could not tell our own value from that
of somebody else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, unquote

from millpond.errors import StorageError
from millpond.storage.addresses import scrubbed, shown_url
from millpond.storage.backends.remote import need_package, unreachable
from millpond.storage.contract import Names, PutOutcome, check_name, inside, is_name, missing

PASSWORD_VARIABLE = "MILLPOND_REDIS_PASSWORD"  # noqa: S105 - the name of a variable, not a password  # nosec B105
TIMEOUT_S = 60.0
_KEY_PREFIX = "millpond:"
_DATABASE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """Which server, which database, which checkpoint; the password is not shown."""

    host: str
    port: int
    database: int
    checkpoint: str
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    tls: bool
    relaxed: bool

    @property
    def shown(self) -> str:
        """The address without user and password."""
        scheme, options = "rediss" if self.tls else "redis", "?durability=relaxed" if self.relaxed else ""
        return shown_url(f"{scheme}://{self.host}:{self.port}/{self.database}/{self.checkpoint}") + options


def read_place(parts: SplitResult, options: dict[str, str]) -> RedisPlace | None:
    """Read an address like redis://user:password@host:6379/0/recs; None if it is none."""
    database, _, checkpoint = parts.path.removeprefix("/").partition("/")
    try:
        port = parts.port or 6379
    except ValueError:
        return None
    durability = options.pop("durability", "full")
    fits = parts.hostname and _DATABASE.fullmatch(database) and is_name(checkpoint)
    if not parts.hostname or not fits or options or durability not in {"full", "relaxed"}:
        return None
    return RedisPlace(
        parts.hostname,
        port,
        int(database),
        checkpoint,
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else os.environ.get(PASSWORD_VARIABLE),
        parts.scheme == "rediss",
        durability == "relaxed",
    )


class RedisStorage:
    """A storage in one hash of a Redis server."""

    def __init__(self, place: RedisPlace, url: str) -> None:
        self._place = place
        self._url = url
        self._key = _KEY_PREFIX + place.checkpoint
        self._client: Any = None
        self._process = 0
        with self._talking("open"):
            self._refuse_to_lose(self._connected())

    def __repr__(self) -> str:
        return f"RedisStorage({self._place.shown!r})"

    @property
    def url(self) -> str:
        """The address as it was given, with its password if it has one: for other processes, not for people."""
        return self._url

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        check_name(name)
        with self._talking(f"write {name}"):
            return PutOutcome.WON if self._connected().hsetnx(self._key, name, bytes(data)) else PutOutcome.PRESENT

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        check_name(name)
        with self._talking(f"read {name}"):
            data: bytes | None = self._connected().hget(self._key, name)
        if data is None:
            raise missing(name, self._place.shown)
        return data

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        check_name(name)
        with self._talking(f"look up {name}"):
            return bool(self._connected().hexists(self._key, name))

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        if prefix:
            check_name(prefix)
        with self._talking(f"list {prefix or 'all names'}"):
            names = [name.decode(errors="replace") for name in self._connected().hkeys(self._key)]
        return inside(prefix, names)

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        check_name(name)
        with self._talking(f"delete {name}"):
            self._connected().hdel(self._key, name)

    def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        """Return the client of this process: a connection must not be shared with a child."""
        if self._client is None or self._process != os.getpid():
            package = need_package("redis", "redis")
            place = self._place
            retry = package.retry.Retry(package.backoff.NoBackoff(), 0)
            self._client = package.Redis(
                host=place.host,
                port=place.port,
                db=place.database,
                username=place.user,
                password=place.password,
                ssl=place.tls,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                retry=retry,
            )
            self._process = os.getpid()
        return self._client

    def _refuse_to_lose(self, client: Any) -> None:
        if self._place.relaxed:
            client.ping()
            return
        found = {}
        for setting in ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy"):
            found.update(client.config_get(setting))
        evicts = found.get("maxmemory") != "0" and str(found.get("maxmemory-policy")).startswith("allkeys")
        if (found.get("appendonly"), found.get("appendfsync")) == ("yes", "always") and not evicts:
            return
        raise StorageError(
            "MP338",
            "this Redis server may lose what it acknowledged",
            expected="appendonly yes, appendfsync always, and no maxmemory-policy that evicts any key",
            found=", ".join(f"{name} {value}" for name, value in sorted(found.items())),
            hint="change the server's settings, or add ?durability=relaxed to the address if a commit may be lost",
        )

    @contextmanager
    def _talking(self, doing: str) -> Iterator[None]:
        package = need_package("redis", "redis")
        try:
            yield
        except package.RedisError as error:
            # Not chained: what the client says of itself may hold the password.
            raise unreachable(doing, self._place.shown, scrubbed(str(error), self._secrets)) from None

    @property
    def _secrets(self) -> tuple[str | None, ...]:
        return self._place.password, self._place.user

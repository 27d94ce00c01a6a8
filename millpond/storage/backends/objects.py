"""Storage in an object store (S3, Google Cloud Storage, Azure Blob Storage): an object per name, put on condition.

What we ask of the store: a put is whole or not at all and durable when it is acknowledged; a read, and a list, sees
every put that was acknowledged before; and a put on the condition that nothing stands under the name fails if something
does, also for two puts at the same time. The large stores promise all of this. Some that speak S3 ignore the condition,
and then two drivers could commit the same epoch: so before its first put every process puts a probe, and refuses the
store (MP332) if the condition does not hold.

A put whose answer was lost is looked at again: each carries a token of its own, so we can tell whether what stands
there is ours. Credentials are those of the environment, the machine's role or the tools of the cloud, as `obstore`
finds them, in every process; they are never part of an address.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult

from millpond.clock import Clock, SystemClock
from millpond.errors import StorageError
from millpond.storage.addresses import scrubbed, shown_url
from millpond.storage.backends.remote import need_package, unreachable
from millpond.storage.contract import Names, PutOutcome, check_name, inside, is_name, missing

PROBE = ".millpond/conditional-put"
PUT_TRIES = 5
PUT_PAUSE_S = 0.2
"""Before the second try; twice as long before each further one."""

_TOKEN = "millpondput"  # noqa: S105 - a field of metadata; Azure takes letters and digits only  # nosec B105
_CLOCK = SystemClock()

_OPTIONS = {
    "s3": {"endpoint": "endpoint", "region": "region"},
    "gs": {"endpoint": "base_url"},
    "az": {"endpoint": "endpoint", "account": "account_name"},
}
"""Per scheme: what an address may say after its ?, and how `obstore` calls it."""

_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Which store, which bucket or container, which folder in it; what options say is not shown."""

    scheme: str
    bucket: str
    folder: str
    options: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def url(self) -> str:
        """The address: for other processes, not for people."""
        options = "&".join(f"{name}={value}" for name, value in self.options)
        return f"{self.scheme}://{self.bucket}/{self.folder}" + (f"?{options}" if options else "")

    @property
    def shown(self) -> str:
        """The address as people may see it."""
        return shown_url(self.url)


def read_place(parts: SplitResult, options: dict[str, str]) -> ObjectPlace | None:
    """Read an address like s3://bucket/folder?region=eu-central-1; None if it is none."""
    folder = parts.path.strip("/")
    if not parts.netloc or "@" in parts.netloc or not is_name(folder) or set(options) - set(_OPTIONS[parts.scheme]):
        return None
    return ObjectPlace(parts.scheme, parts.netloc, folder, tuple(sorted(options.items())))


class ObjectStorage:
    """A storage in one folder of a bucket."""

    def __init__(self, place: ObjectPlace, clock: Clock = _CLOCK) -> None:
        self._place = place
        self._clock = clock
        self._obstore = need_package("obstore", "cloud")
        need_package("obstore.store", "cloud")
        self._probed = False
        self._process = 0
        self._stores: tuple[Any, Any] | None = None
        self._opened()

    def __repr__(self) -> str:
        return f"ObjectStorage({self._place.shown!r})"

    @property
    def url(self) -> str:
        """The address, as other processes open it."""
        return self._place.url

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        check_name(name)
        if not self._probed:
            self._probe()
        return self._put_once(name, bytes(data))

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        check_name(name)
        with self._talking(f"read {name}"), self._missing(name):
            return bytes(self._obstore.get(self._reading, self._path(name)).bytes())

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        check_name(name)
        with self._talking(f"look up {name}"):
            try:
                self._obstore.head(self._reading, self._path(name))
            except FileNotFoundError:
                return False
        return True

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        if prefix:
            check_name(prefix)
        folder = f"{self._place.folder}/{prefix}".rstrip("/")
        above = len(self._place.folder) + 1
        with self._talking(f"list {prefix or 'all names'}"):
            pages = self._obstore.list(self._reading, folder, chunk_size=1000)
            names = [entry["path"][above:] for page in pages for entry in page]
        return inside(prefix, (name for name in names if not name.startswith(".")))

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        check_name(name)
        with self._talking(f"delete {name}"), suppress(FileNotFoundError):
            self._obstore.delete(self._reading, self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._place.folder}/{name}"

    def _put_once(self, name: str, data: bytes) -> PutOutcome:
        """Put on condition. `obstore` tries once: a second try could not tell our own object from another's."""
        token = uuid.uuid4().hex
        exists = self._obstore.exceptions.AlreadyExistsError
        pause = PUT_PAUSE_S
        for tries_left in reversed(range(PUT_TRIES)):
            try:
                self._obstore.put(
                    self._writing,
                    self._path(name),
                    data,
                    mode="create",
                    use_multipart=False,
                    attributes={_TOKEN: token},
                )
            except exists:
                first = tries_left == PUT_TRIES - 1
                return PutOutcome.PRESENT if first or self._token_of(name) != token else PutOutcome.WON
            except (self._obstore.exceptions.BaseError, OSError) as error:
                if tries_left == 0 or isinstance(error, PermissionError | FileNotFoundError):
                    raise unreachable(f"write {name}", self._place.shown, _scrubbed(error)) from None
                self._clock.sleep(pause)
                pause *= 2
            else:
                return PutOutcome.WON
        raise AssertionError("the last try returns or raises")

    def _token_of(self, name: str) -> str | None:
        with self._talking(f"read {name}"), self._missing(name):
            token: str | None = self._obstore.get(self._reading, self._path(name)).attributes.get(_TOKEN)
        return token

    def _probe(self) -> None:
        """See that a second put under a name is refused; the object of the first process serves all later ones."""
        if self._put_once(PROBE, b"") is PutOutcome.WON and self._put_once(PROBE, b"") is PutOutcome.WON:
            raise StorageError(
                "MP332",
                "this object store ignores the condition of a put",
                expected="that a put fails if the object exists and the put was made on the condition that it does not",
                found=f"{self._place.shown} took the same object twice",
                hint="two drivers could commit the same epoch: use a store with conditional writes, or another kind",
            )
        self._probed = True

    @property
    def _reading(self) -> Any:
        return self._opened()[0]

    @property
    def _writing(self) -> Any:
        return self._opened()[1]

    def _opened(self) -> tuple[Any, Any]:
        """Return one store that tries again and one that does not.

        Made anew in a child, which must not share connections.
        """
        if self._stores is None or self._process != os.getpid():
            scheme, options = self._place.scheme, dict(self._place.options)
            made = getattr(self._obstore.store, _CLASSES[scheme])
            settings: dict[str, Any] = {_OPTIONS[scheme][name]: value for name, value in options.items()}
            plain_http = options.get("endpoint", "").startswith("http://")
            settings["client_options"] = {"allow_http": plain_http, "timeout": "300s"}
            with self._talking("open the store"):
                self._stores = (
                    made(self._place.bucket, **settings),
                    made(self._place.bucket, retry_config={"max_retries": 0}, **settings),
                )
            self._process = os.getpid()
        return self._stores

    @contextmanager
    def _missing(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise missing(name, self.url) from None

    @contextmanager
    def _talking(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError) as error:
            # Not chained: what the client says at length may hold signatures and keys.
            raise unreachable(doing, self._place.shown, _scrubbed(error)) from None


def _scrubbed(error: Exception) -> str:
    """Return the first line of what the client says, without what may be secret in it."""
    return scrubbed(str(error).partition("\n")[0])[:300]

"""Every storage backend there is, ready to be opened by the tests of the contract."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest

from benchmarks.baselines.perkey import FaithfulPerKeyStorage
from benchmarks.brokers import KafkaServer, PostgresServer
from benchmarks.servers import ServerError
from millpond.storage.open import open_storage
from tests.contract import s3_server as s3
from tests.contract.azure import ACCOUNT, AZURITE, KEY, azure_server
from tests.contract.example import example_module
from tests.contract.servers import REDIS_PASSWORD, RedisServer, s3_server


@dataclass(frozen=True)
class Backend:
    """One kind of storage, and which claims can be tested on it."""

    name: str
    open: Callable = field(repr=False)
    processes: bool = True
    """Several processes can use one."""
    kept_on_disk: bool = True
    """Its files are on this disk, written by this process: kill -9 in the middle of a put says something."""
    fast: bool = True
    """Hundreds of puts in a second."""
    modules: str = ""

    def __str__(self):
        return self.name


BACKENDS = {
    "memory": {"processes": False, "kept_on_disk": False},
    "files": {},
    "log": {},
    "log-small-files": {},
    "perkey": {},
    "perkey-faithful": {"processes": False},
    "rocksdb": {"fast": False},
    "rocksdb-one-owner": {"processes": False},
    "redis": {"kept_on_disk": False},
    "s3": {"kept_on_disk": False, "fast": False},
    "spread": {},
    "elements": {},
    "example": {},
} | ({"azure": {"kept_on_disk": False, "fast": False}} if AZURITE.exists() else {})
"""Azure's emulator is not part of the set-up: `scripts/azurite.sh` installs it."""


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_endpoint():
    with s3_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.CREDENTIALS.items():
            patch.setenv(name, value)
        yield endpoint


@pytest.fixture(scope="session")
def azure_endpoint():
    with azure_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        yield endpoint


_places = itertools.count()


def redis_url(server: RedisServer, options: str = "") -> str:
    return f"redis://:{quote(REDIS_PASSWORD, safe='')}@127.0.0.1:{server.port}/0/tests/{next(_places)}{options}"


def s3_url(endpoint: str, bucket: str = "plain") -> str:
    return f"s3://{bucket}/tests/{next(_places)}?endpoint={endpoint}"


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path):
    name = request.param
    place = tmp_path / "new" / "checkpoint"
    modules = ""
    if name == "redis":
        url = redis_url(request.getfixturevalue("redis_server"))
    elif name == "s3":
        url = s3_url(request.getfixturevalue("s3_endpoint"))
    elif name == "azure":
        url = f"az://container/tests/{next(_places)}?endpoint={request.getfixturevalue('azure_endpoint')}"
    elif name == "example":
        modules = example_module()
        url = f"sqlite://{place}"
    else:
        url = {
            "memory": f"memory://{tmp_path.name}",
            "rocksdb": f"rocksdb://{place}",
            "rocksdb-one-owner": f"rocksdb://{place}?owner=one",
            "log": f"log://{place}",
            "perkey": f"perkey://{place}",
            "spread": f"spread://2*{place}/one|log://{place}/two|{place}/three",
            "elements": f"elements://{place}/one|clicks:3=log://{place}/two|{place}/three",
        }.get(name, str(place))
    opened = []

    def open_it():
        if name == "perkey-faithful":
            storage = FaithfulPerKeyStorage(place)
        elif name == "log-small-files":
            from millpond.storage.backends.log.log import LogStorage

            storage = LogStorage(place, file_bytes_max=2000, index_records_min=3)
        else:
            storage = open_storage(url)
        if name == "rocksdb-one-owner" and opened:
            return opened[0]
        opened.append(storage)
        return storage

    yield Backend(name, open_it, modules=modules, **BACKENDS[name])
    for storage in opened:
        if hasattr(storage, "close"):
            storage.close()


@pytest.fixture
def storage(backend):
    return backend.open()


def _served(make, folder):
    """A server, or a skip that names what is missing; where nobody would read that, as in CI, it fails."""
    try:
        return make(folder)
    except ServerError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory):
    server = _served(KafkaServer, tmp_path_factory.mktemp("kafka") / "log")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory):
    server = _served(PostgresServer, tmp_path_factory.mktemp("postgres") / "server")
    yield server
    server.stop()

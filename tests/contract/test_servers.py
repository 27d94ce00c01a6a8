"""Servers that do not do as they should, and secrets that nobody must see."""

from __future__ import annotations

import os
import traceback
from urllib.parse import quote

import pytest

from millpond.checkpoint.forking import fork
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.retention.retention import Keep
from millpond.clock import ManualClock
from millpond.errors import EpochError, StorageError
from millpond.storage.addresses import shown_url
from millpond.storage.backends import objects
from millpond.storage.backends.redis import PASSWORD_VARIABLE
from millpond.storage.contract import PutOutcome
from millpond.storage.open import open_storage
from tests.contract.conftest import redis_url, s3_url
from tests.contract.s3_server import CREDENTIALS
from tests.contract.servers import REDIS_PASSWORD, RedisServer, free_port
from tests.unit.checkpoint.keeping import Driver, stored

SECRETS = (REDIS_PASSWORD, quote(REDIS_PASSWORD, safe=""), CREDENTIALS["AWS_SECRET_ACCESS_KEY"])


def texts_of(error):
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


def assert_no_secrets(text):
    for secret in SECRETS:
        assert secret not in text, text


def test_a_store_that_ignores_the_condition_of_a_put_is_refused(s3_endpoint):
    storage = open_storage(s3_url(s3_endpoint, "deaf"))
    for _ in range(2):
        with pytest.raises(StorageError, match="took the same object twice") as caught:
            storage.put("manifests/0000000001", b"x")
        assert caught.value.code == "MP332"
    assert storage.list("") == []


def test_a_put_whose_answer_was_lost_is_still_won_by_its_writer(s3_endpoint, monkeypatch):
    monkeypatch.setattr(objects, "PUT_PAUSE_S", 0.001)
    storage = open_storage(s3_url(s3_endpoint, "forgetful"))
    assert storage.put("manifests/0000000001", b"ours") is PutOutcome.WON
    assert storage.get("manifests/0000000001") == b"ours"
    assert storage.put("manifests/0000000001", b"ours") is PutOutcome.PRESENT


def test_a_put_whose_answer_was_lost_to_a_name_that_was_taken_is_not_won(s3_endpoint, monkeypatch):
    monkeypatch.setattr(objects, "PUT_PAUSE_S", 0.001)
    plain = s3_url(s3_endpoint, "plain")
    first, second = open_storage(plain), open_storage(plain)
    first.put("name", b"equal")
    real_put = second._obstore.put
    failures = []

    class FailsOnce:
        def __getattr__(self, name):
            return getattr(first._obstore, name)

        def put(self, *args, **options):
            if not failures:
                failures.append(1)
                raise first._obstore.exceptions.GenericError("no answer")
            return real_put(*args, **options)

    second._probed = True
    second._obstore = FailsOnce()
    assert second.put("name", b"equal") is PutOutcome.PRESENT
    assert failures


def test_the_probe_is_not_listed(s3_endpoint):
    storage = open_storage(s3_url(s3_endpoint))
    storage.put("name", b"x")
    assert storage.list("") == ["name"]


def test_a_bucket_that_is_not_there_is_a_coded_error_without_secrets(s3_endpoint):
    storage = open_storage(s3_url(s3_endpoint, "nowhere"))
    for call in (lambda: storage.put("a", b"x"), lambda: storage.list("")):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.code == "MP331"
        assert_no_secrets(texts_of(caught.value))


def test_a_server_that_is_away_is_a_coded_error_without_secrets(monkeypatch):
    monkeypatch.setattr(objects, "PUT_TRIES", 2)
    monkeypatch.setattr(objects, "PUT_PAUSE_S", 0.001)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    port = free_port()
    with pytest.raises(StorageError) as caught:
        open_storage(s3_url(f"http://127.0.0.1:{port}")).put("a", b"x")
    assert caught.value.code == "MP331"
    assert_no_secrets(texts_of(caught.value))
    with pytest.raises(StorageError) as caught:
        open_storage(f"redis://:{quote(REDIS_PASSWORD, safe='')}@127.0.0.1:{port}/0/recs")
    assert caught.value.code == "MP331"
    assert_no_secrets(texts_of(caught.value))


def test_a_password_is_shown_nowhere(redis_server):
    url = redis_url(redis_server)
    storage = open_storage(url)
    assert storage.url == url
    assert_no_secrets(repr(storage) + str(storage) + repr(storage._place))
    with pytest.raises(StorageError, match="is missing") as caught:
        storage.get("nothing")
    assert_no_secrets(texts_of(caught.value))
    with pytest.raises(StorageError) as caught:
        open_storage(url.replace("/0/", "/no-number/"))
    assert caught.value.code == "MP311"
    assert_no_secrets(texts_of(caught.value))
    assert_no_secrets(shown_url(url))
    assert_no_secrets(shown_url(f"redis://user:{REDIS_PASSWORD}@host/0/recs"))
    storage.close()


def test_a_fork_does_not_write_the_password_of_its_source_down(redis_server, tmp_path, monkeypatch):
    url = redis_url(redis_server)
    driver = Driver(open_storage(url), Keep.all(), ManualClock())
    driver.epoch({"a": "x"})
    with pytest.raises(EpochError, match="MP423") as caught:
        fork(url, tmp_path / "new")
    assert_no_secrets(texts_of(caught.value))
    assert not (tmp_path / "new").exists()
    fork(url, tmp_path / "copy", copy=True)
    monkeypatch.setenv(PASSWORD_VARIABLE, REDIS_PASSWORD)
    fork(url.replace(f":{quote(REDIS_PASSWORD, safe='')}@", ""), tmp_path / "new")
    for folder in ("new", "copy"):
        assert read_state(open_storage(str(tmp_path / folder))) == stored({"a": "x"})
        assert_no_secrets("".join(repr(path.read_bytes()) for path in (tmp_path / folder).rglob("*") if path.is_file()))


def test_a_wrong_password_is_a_coded_error_that_does_not_show_it(redis_server):
    wrong = "wrong" * 3
    with pytest.raises(StorageError) as caught:
        open_storage(f"redis://:{wrong}@127.0.0.1:{redis_server.port}/0/recs")
    assert caught.value.code == "MP331"
    assert wrong not in texts_of(caught.value)


def test_the_password_may_come_from_the_environment(redis_server, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, REDIS_PASSWORD)
    storage = open_storage(f"redis://127.0.0.1:{redis_server.port}/0/from-environment")
    assert storage.put("name", b"x") is PutOutcome.WON
    storage.close()


@pytest.mark.parametrize(
    "settings",
    [
        ("--appendonly", "no"),
        ("--appendonly", "yes", "--appendfsync", "everysec"),
        ("--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"),
    ],
    ids=["no log", "synced each second", "evicts"],
)
def test_a_redis_that_may_lose_what_it_acknowledged_is_refused_unless_asked_for(tmp_path, settings):
    server = RedisServer(tmp_path, *settings)
    try:
        with pytest.raises(StorageError) as caught:
            open_storage(redis_url(server))
        assert caught.value.code == "MP338"
        assert_no_secrets(texts_of(caught.value))
        relaxed = open_storage(redis_url(server, "?durability=relaxed"))
        assert relaxed.put("name", b"x") is PutOutcome.WON
        relaxed.close()
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("s3://bucket/recs", "obstore", "cloud"),
        ("gs://bucket/recs", "obstore", "cloud"),
        ("az://container/recs?account=a", "obstore", "cloud"),
        ("redis://host/0/recs", "redis", "redis"),
        ("rocksdb:///data/recs", "rocksdict", "rocksdb"),
    ],
)
def test_a_missing_package_is_a_coded_error_that_names_its_extra(monkeypatch, url, package, extra):
    import importlib

    real = importlib.import_module

    def without(name, *args):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args)

    monkeypatch.setattr("millpond.storage.backends.remote.importlib.import_module", without)
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    assert caught.value.code == "MP330"
    assert f"millpond[{extra}]" in str(caught.value)


def test_a_child_has_connections_of_its_own(redis_server):
    storage = open_storage(redis_url(redis_server))
    storage.put("name", b"x")
    parent_client = storage._client
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            ended = 0 if storage.get("name") == b"x" and storage._client is not parent_client else 2
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert storage.get("name") == b"x"
    storage.close()

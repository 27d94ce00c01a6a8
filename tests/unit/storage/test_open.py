from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from millpond.errors import StorageError
from millpond.storage import open as opening
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.backends.perkey import PerKeyStorage, file_of_key, key_of_file
from millpond.storage.backends.rocks import RocksStorage
from millpond.storage.contract import folder_url
from millpond.storage.open import open_storage, register_backend


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_path_and_a_file_address_open_the_same_folder(tmp_path, form):
    FileStorage(tmp_path / "c").put("a", b"x")
    assert open_storage(form.format(tmp_path / "c")).get("a") == b"x"


def test_an_address_may_hold_quoted_characters(tmp_path):
    FileStorage(tmp_path / "a b").put("a", b"x")
    assert open_storage(f"file://{tmp_path}/a%20b").get("a") == b"x"


def test_a_relative_path_is_opened_below_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_storage("state/recs").put("a", b"x")
    assert (tmp_path / "state" / "recs" / "a").read_bytes() == b"x"


def test_a_worker_opens_the_storage_of_the_driver_by_its_url(tmp_path):
    driver = FileStorage(tmp_path / "c")
    driver.put("a", b"x")
    assert open_storage(driver.url).get("a") == b"x"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hdfs://host/x",
        "s3://bucket",
        "s3:///recs",
        "s3://key:secret@bucket/recs",
        "s3://bucket/recs?secret_access_key=x",
        "gs://bucket/recs?region=x",
        "redis://host/recs",
        "redis:///0/recs",
        "redis://host:port/0/recs",
        "redis://host/0/recs?timeout=3",
        "redis://host/0/recs?durability=none",
        "rocksdb://host/recs",
        "rocksdb:///recs?owner=two",
        "log://",
        "log://host/recs",
        "log:///recs?x=1",
        "perkey:///recs#part",
        "memory://",
        "memory://a/b",
        "http://[bad",
        "file://otherhost/x",
        "file://",
        "file:///a?query",
        "nul\0",
        "file:///nul%00",
        "lone\ud800",
        "file:///lone\ud800",
        MemoryStorage().url,
    ],
)
def test_any_other_address_is_refused_with_what_is_supported(url):
    with pytest.raises(StorageError, match="file://") as caught:
        open_storage(url)
    assert caught.value.code == "MP311"


def test_each_local_kind_is_opened_by_its_scheme_and_by_its_own_url(tmp_path):
    for scheme, kind in (("log", LogStorage), ("perkey", PerKeyStorage), ("rocksdb", RocksStorage)):
        storage = open_storage(f"{scheme}://{tmp_path}/{scheme}%20here")
        assert isinstance(storage, kind)
        storage.put("a", b"x")
        assert open_storage(storage.url).get("a") == b"x"
        assert (tmp_path / f"{scheme} here").is_dir()


@pytest.mark.parametrize("form", ["{}", "file://{}", "log://{}", "perkey://{}", "rocksdb://{}", "spread://{0}|{0}-too"])
@pytest.mark.parametrize("odd", ["%41", "a#b", "a?b=c", "100%", "a|b", "a b", os.fsdecode(b"\xff"), "ä", "a@b", "a+b"])
def test_the_address_of_a_storage_opens_its_folder_whatever_that_is_called(tmp_path, form, odd):
    """Tasks open the driver's storage by its address: if that led elsewhere, commits would name what is not there."""
    plain = form == "{}"
    folder = f"{tmp_path}/{odd}"
    storage = open_storage(form.format(folder if plain else quote(os.fsencode(folder))))
    if form.startswith("spread"):
        storage = open_storage(f"spread://{folder_url('file', Path(folder))}|{tmp_path}/too")
    if "rocksdb" in form and not odd.isprintable():
        with pytest.raises(StorageError, match="MP309"):
            storage.put("a", b"x")
        return
    storage.put("deltas/" + "0" * 40, b"x")
    storage.put("a", b"x")
    again = open_storage(storage.url)
    assert again.get("a") == again.get("deltas/" + "0" * 40) == b"x"
    assert again.url == storage.url
    assert Path(folder).is_dir()


def test_s4s_way_can_not_hold_a_checkpoint():
    with pytest.raises(StorageError) as caught:
        open_storage("perkey+faithful:///data/recs")
    assert caught.value.code == "MP336"


def test_memory_is_opened_by_its_label_within_its_process():
    one, other = open_storage("memory://one-label"), open_storage("memory://other-label")
    one.put("a", b"x")
    assert open_storage("memory://one-label") is one
    assert open_storage(one.url) is one
    assert not other.contains("a")


def test_a_registered_kind_is_opened_by_its_scheme(monkeypatch):
    monkeypatch.setattr(opening, "_added", {})
    made = []
    register_backend("mine", lambda url: made.append(url) or MemoryStorage())
    assert isinstance(open_storage("mine://anything/at?all=1"), MemoryStorage)
    assert made == ["mine://anything/at?all=1"]


@pytest.mark.parametrize("scheme", ["file", "s3", "Upper", "", "with space", "4ever"])
def test_a_scheme_that_is_taken_or_is_none_is_refused(scheme):
    with pytest.raises(StorageError) as caught:
        register_backend(scheme, lambda url: MemoryStorage())
    assert caught.value.code == "MP340"


def test_an_installed_package_adds_a_kind_by_its_entry_point(tmp_path, monkeypatch):
    info = tmp_path / "kinds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kinds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[millpond.storage]\nkinds = kinds_of_tests:open_it\n")
    (tmp_path / "kinds_of_tests.py").write_text(
        "from millpond.storage.backends.memory import MemoryStorage\n"
        "def open_it(url):\n    return MemoryStorage(url[-4:])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(open_storage("kinds://here"), MemoryStorage)


@pytest.mark.parametrize("name", ["a", "a/b", "a=2Fb", "=", "a=3D=_/-", "x" * 200 + "/" + "=" * 200 + "/y.z"])
def test_a_key_has_a_file_and_the_file_its_key(name):
    path = file_of_key(name)
    assert key_of_file(path) == name
    assert max(map(len, path.split("/"))) < 255
    assert all(part[0] != "." for part in path.split("/"))

from __future__ import annotations

import pytest

from millpond.errors import StorageError
from millpond.storage.files import FileStorage
from millpond.storage.memory import MemoryStorage
from millpond.storage.open import open_storage


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
        "s3://bucket/recs",
        "hdfs://host/x",
        "file://otherhost/x",
        "file://",
        "file:///a?query",
        "nul\0",
        "file:///nul%00",
        MemoryStorage().url,
    ],
)
def test_any_other_address_is_refused_with_what_is_supported(url):
    with pytest.raises(StorageError, match="file://") as caught:
        open_storage(url)
    assert caught.value.code == "MP311"

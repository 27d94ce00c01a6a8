"""Files near this host, all else kept: what is where, and how another process opens it."""

from __future__ import annotations

import pytest

from millpond.errors import StorageError
from millpond.storage.addresses import shown_url
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.unsynced import UnsyncedStorage, unsynced_of, unsynced_storage
from millpond.storage.content import put_content
from millpond.storage.contract import PutOutcome, bottom
from millpond.storage.open import open_storage


@pytest.fixture
def near(tmp_path):
    return UnsyncedStorage(FileStorage(tmp_path / "kept"), tmp_path / "near")


def test_what_is_put_near_stays_there_and_all_else_is_kept(near, tmp_path):
    assert unsynced_of(near).put("deltas/a", b"1") is PutOutcome.WON
    assert unsynced_of(near).put("deltas/a", b"2") is PutOutcome.PRESENT
    near.put("manifests/0000000001", b"3")
    assert FileStorage(tmp_path / "near").list("") == ["deltas/a"]
    assert FileStorage(tmp_path / "kept").list("") == ["manifests/0000000001"]
    assert near.list("") == ["deltas/a", "manifests/0000000001"]
    for storage in (near, near.unsynced):
        assert (storage.get("deltas/a"), storage.get("manifests/0000000001")) == (b"1", b"3")


def test_a_torn_file_does_not_stand_in_the_way_of_its_content(near, tmp_path):
    ref = put_content(near.unsynced, "deltas", b"whole", mark="test")
    path = tmp_path / "near" / ref.name
    path.chmod(0o600)
    path.write_bytes(b"wh")
    assert put_content(near.unsynced, "deltas", b"whole", mark="test") == ref
    assert near.get(ref.name) == b"whole"
    near.kept.put(ref.name, b"whole")
    near.forget_unsynced(ref.name)
    assert not path.exists()
    assert near.get(ref.name) == b"whole"


def test_what_is_not_near_is_looked_for_where_all_else_is(near):
    near.kept.put("deltas/old", b"1")
    assert near.contains("deltas/old")
    assert near.get("deltas/old") == b"1"
    near.delete("deltas/old")
    assert not near.contains("deltas/old")
    with pytest.raises(StorageError) as caught:
        near.get("deltas/old")
    assert caught.value.code == "MP304"


def test_another_process_opens_both_by_the_address(near):
    near.unsynced.put("deltas/a", b"1")
    near.put("genesis", b"2")
    for storage in (near, near.unsynced):
        again = open_storage(storage.url)
        assert (type(again), again.url) == (type(storage), storage.url)
        assert (again.get("deltas/a"), again.get("genesis")) == (b"1", b"2")
    assert bottom(open_storage(near.url)).url == near.kept.url
    assert bottom(near.kept) is unsynced_of(near.kept) is near.kept


def test_two_checkpoints_below_one_root_do_not_meet(tmp_path):
    kept = FileStorage(tmp_path / "kept")
    one, other = (unsynced_storage(kept, name, str(tmp_path)) for name in ("one", "other"))
    one.unsynced.put("deltas/a", b"1")
    assert not other.contains("deltas/a")


def test_a_password_is_not_shown():
    url = "near:?kept=redis%3A%2F%2Fme%3Asecret%40host%2F0%2Fx&folder=%2Ftmp%2Fnear"
    assert shown_url(url) == "redis://***@host/0/x"


@pytest.mark.parametrize(
    "url", ["near:", "near:?kept=x", "near:?kept=x&folder=y&more=z", "near:?kept=x&folder=y&puts=z"]
)
def test_half_an_address_is_refused(url):
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    assert caught.value.code == "MP311"

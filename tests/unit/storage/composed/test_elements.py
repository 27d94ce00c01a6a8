"""A storage that is chosen by state element: addresses, what goes where, and roots that are lost or left out."""

from __future__ import annotations

import shutil

import pytest

from millpond.checkpoint.forking import places_of
from millpond.errors import StorageError
from millpond.storage.composed.elements import Wish, placing, read_wishes
from millpond.storage.contract import PutOutcome
from millpond.storage.open import holds_password, open_storage, opens_elsewhere

CONTENT = "deltas/" + "a" * 40
OTHER = "snapshots/" + "b" * 40


def opened(tmp_path, *places):
    return open_storage("|".join((f"elements://{tmp_path}/home", *places)))


def code_of(call, *arguments):
    with pytest.raises(StorageError) as caught:
        call(*arguments)
    return caught.value.code


def test_an_address_says_what_goes_where():
    assert read_wishes("elements:///home|a,b_2=s3://bucket/x?region=y|log:///old|c:3,4=/d/e=f") == [
        Wish("/home"),
        Wish("s3://bucket/x?region=y", ("a", "b_2")),
        Wish("log:///old"),
        Wish("/d/e=f", ("c",), (3, 4)),
    ]
    assert read_wishes("elements://a=b") == [Wish("a=b")], "the home has no elements: it has all others"


@pytest.mark.parametrize(
    "url",
    [
        "elements://",
        "elements://|a=/x",
        "elements:///home|",
        "elements:///home|a=",
        "elements:///home|a=/x|a=/y",
        "elements:///home|a:1=/x|b:1=/y",
        "elements:///home|a:256=/x",
        "elements:///home|a=/home",
        "elements:///home|a=spread:///x|/y",
        "elements:///home|a=elements:///x",
    ],
)
def test_any_other_address_is_refused(url):
    assert code_of(open_storage, url) == "MP359"


def test_a_spread_storage_has_no_roots_by_elements(tmp_path):
    assert code_of(open_storage, f"spread://{tmp_path}/a|elements://{tmp_path}/b") == "MP352"


def test_what_is_known_of_elements_travels_with_the_address(tmp_path):
    storage = opened(tmp_path, f"clicks,over=log://{tmp_path}/fast", f"blobs={tmp_path}/large")
    assert storage.names == ("blobs", "clicks", "over")
    assert storage.at(0) is storage
    storage.know(["words", "clicks", None, "blobs", "over", "over.due"])
    there = open_storage(storage.url)
    assert there.url == storage.url
    for each in (storage, there):
        assert each.at(0) is each
        assert each.at(1) == each.at(4) == each.at(5) != each.at(3)
        divided = {tuple(sorted(own)) for _, own in placing(each, range(6))}
        assert divided == {(0, 2), (1, 4, 5), (3,)}
    assert [sorted(own) for _, own in placing(storage, [1, 4])] == [[], [1, 4]]
    assert [sorted(own) for _, own in placing(open_storage(str(tmp_path / "home")), [1, 4])] == [[1, 4]]


def test_files_go_to_their_place_and_are_found_by_everybody(tmp_path):
    storage = opened(tmp_path, f"clicks:1=log://{tmp_path}/fast")
    at = storage.at(1)
    assert at.put(CONTENT, b"x") is PutOutcome.WON
    assert at.put(CONTENT, b"x") is PutOutcome.PRESENT
    at.put("manifests/0000000001", b"m")
    storage.put(OTHER, b"y")
    home, fast = open_storage(f"{tmp_path}/home"), storage._roots[1].storage
    assert (home.contains(CONTENT), fast.get(CONTENT)) == (False, b"x")
    assert (home.get(OTHER), fast.contains(OTHER)) == (b"y", False)
    assert (home.get("manifests/0000000001"), fast.contains("manifests/0000000001")) == (b"m", False)
    for each in (storage, at, open_storage(storage.url)):
        assert (each.get(CONTENT), each.get(OTHER)) == (b"x", b"y")
        assert each.list("") == [CONTENT, "manifests/0000000001", OTHER]
        assert each.contains(CONTENT)
        assert each.url == storage.url
    at.delete(OTHER)
    storage.delete(CONTENT)
    assert storage.list("") == ["manifests/0000000001"]


def test_a_place_may_change_and_a_root_may_stay_to_be_read(tmp_path):
    opened(tmp_path, f"clicks:1={tmp_path}/old").at(1).put(CONTENT, b"x")
    later = opened(tmp_path, f"clicks:1={tmp_path}/new", f"{tmp_path}/old")
    later.at(1).put(OTHER, b"y")
    assert (later.get(CONTENT), later.get(OTHER)) == (b"x", b"y")
    assert (tmp_path / "new" / OTHER).exists()
    assert code_of(opened(tmp_path, f"clicks:1={tmp_path}/new").get, CONTENT) == "MP355"


def test_a_lost_root_is_told_and_nothing_is_written_to_it(tmp_path):
    storage = opened(tmp_path, f"clicks:1={tmp_path}/fast")
    storage.at(1).put(CONTENT, b"x")
    shutil.rmtree(tmp_path / "fast")
    again = opened(tmp_path, f"clicks:1={tmp_path}/fast")
    assert code_of(again.get, CONTENT) == "MP353"
    assert code_of(again.at(1).get, CONTENT) == "MP353"
    assert code_of(again.at(1).put, OTHER, b"y") == "MP353"
    assert not (tmp_path / "fast").exists()


def test_what_is_asked_of_addresses_is_asked_of_all_roots(tmp_path):
    url = f"elements://{tmp_path}/home|a=redis://:word@host/0/x"
    assert holds_password(url)
    assert not holds_password(f"elements://{tmp_path}/home|a=redis://host/0/x")
    assert opens_elsewhere(url)
    assert not opens_elsewhere(f"elements://{tmp_path}/home|a=memory://x")
    assert len(places_of(f"elements://{tmp_path}/home|a=log://{tmp_path}/fast")) == 2

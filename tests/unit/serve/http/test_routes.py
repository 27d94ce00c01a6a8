"""What can be asked over HTTP, and what comes back."""

from __future__ import annotations

import urllib.parse

import pyarrow as pa
import pytest

from millpond import follow
from millpond.serve.http.server import application
from tests.unit.serve.http.conftest import Asked


def test_an_answer_says_of_which_epoch_it_is(asked, follower):
    assert asked.get("/state/accounts/ann").json() == {
        "epoch": 2,
        "session": follower.session,
        "element": "accounts",
        "key": "ann",
        "found": True,
        "value": {"owner": "ann", "balance": 5},
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/state/accounts/" + urllib.parse.quote("a/b c"), {"owner": "a/b c", "balance": 1}),
        ('/state/bought/["ann",1]', [3, 4]),
        ("/state/fresh/ann", 7),
        ("/state/names/ann", True),
        ("/state/log/0", "ann"),
        ("/state/total", 7),
        ("/state/visits/ann", 1),
        ("/state/colours/red", 7),
    ],
)
def test_keys_and_values_of_all_kinds(asked, path, value):
    assert asked.get(path).json()["value"] == value


def test_what_is_not_there_is_an_answer_too(asked):
    found = asked.get("/state/accounts/eve")
    assert (found.status_code, found.json()["found"], found.json()["epoch"]) == (404, False, 2)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/state/nothing", 404, "MP240"),
        ("/state/log/x", 400, "MP241"),
        ("/state/total/x", 400, "MP241"),
        ("/state/accounts/ann?at=99", 410, "MP450"),
        ("/state/accounts/ann?min_epoch=9&within=1ms", 412, "MP886"),
        ("/state/accounts/ann?min_epoch=soon", 400, "MP884"),
        ("/state/accounts?limit=0", 400, "MP897"),
        ("/state/accounts?limit=99999", 400, "MP897"),
        ("/state/visits/ann?instance=99", 400, "MP243"),
        ("/nowhere/at/all", 404, "MP897"),
        ("/state", 200, None),
    ],
)
def test_what_can_t_be_asked_has_a_code(asked, path, status, code):
    answer = asked.get(path)
    assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code)


def test_a_range_comes_in_pages_in_the_order_of_keys(asked):
    first = asked.get("/state/accounts?limit=2").json()
    assert [one["key"] for one in first["entries"]] == ["a/b c", "ann"]
    last = asked.get("/state/accounts", params={"limit": 2, "after": first["after"]}).json()
    assert [one["key"] for one in last["entries"]] == ["bob"]
    assert "after" not in last
    some = asked.get("/state/accounts?start=ann&stop=bob").json()
    assert [one["key"] for one in some["entries"]] == ["ann"]


def test_pages_may_come_as_arrow(asked):
    answer = asked.get("/state/visits", headers={"accept": "application/vnd.apache.arrow.stream"})
    with pa.ipc.open_stream(answer.content) as stream:
        rows = stream.read_all().select(["key", "value"]).to_pylist()
    assert rows == [{"key": "ann", "value": 1}, {"key": "bob", "value": 1}]
    none = asked.get("/state/visits?start=z", headers={"accept": "application/vnd.apache.arrow.stream"})
    with pa.ipc.open_stream(none.content) as stream:
        assert stream.read_all().num_rows == 0


def test_several_keys_are_of_one_epoch(asked):
    wanted = {"get": [{"element": "accounts", "keys": ["ann", "eve"]}, {"element": "bought", "keys": [["ann", 1]]}]}
    told = asked.post("/state", json=wanted).json()
    assert told["epoch"] == 2
    assert [[one["found"] for one in each["entries"]] for each in told["got"]] == [[True, False], [True]]
    assert asked.post("/state", json={"get": [{"element": "accounts", "keys": [[1]]}]}).status_code == 400
    assert asked.post("/state", content=b"{").status_code == 400


def test_entry_points_that_only_read_are_asked_with_json(asked):
    assert asked.post("/balance", json={"name": "ann"}).json()["reply"] == {"owner": "ann", "balance": 5}
    assert asked.post("/carts", json={"name": "ann"}).json()["reply"] == [3, 4]
    assert asked.post("/carts", json={"name": "ann", "item": 2}).json()["reply"] == []
    assert asked.post("/near", json={"item": 1}).json()["reply"] == {"2": 2}
    assert asked.post("/paint", json={"colour": "red"}).json()["reply"] == 7
    assert asked.post("/richest").json()["reply"] == "bob"
    assert asked.post("/when").json()["reply"].endswith("+00:00")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/pay", {"name": "ann", "item": 1, "cents": 1}, 403, "MP882"),
        ("/wipe", {}, 403, "MP882"),
        ("/look", {"name": "ann"}, 403, "MP882"),
        ("/nothing", {}, 404, "MP881"),
        ("/balance", {}, 400, "MP883"),
        ("/balance", {"name": 7}, 400, "MP897"),
        ("/balance", {"name": "ann", "more": 1}, 400, "MP897"),
        ("/paint", {"colour": "green"}, 400, "MP897"),
        ("/balance?at=1", {"name": "ann"}, 400, "MP897"),
        ("/fail", {"name": "eve"}, 422, "MP898"),
    ],
)
def test_what_changes_state_or_does_not_fit_is_refused(asked, path, body, status, code):
    answer = asked.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "Traceback" not in answer.text


def test_what_an_entry_point_refuses_is_of_an_epoch_too(asked, follower):
    answer = asked.post("/spare", json={"name": "eve"})
    assert answer.status_code == 422
    assert answer.json() == {"epoch": 2, "session": follower.session, "aborted": "no eve"}
    assert asked.post("/spare", json={"name": "ann"}).json()["reply"] == 7


def test_a_client_that_has_the_epoch_is_told_so(asked, follower, job):
    tag = asked.get("/state/accounts/ann").headers["etag"]
    assert asked.get("/state/accounts/ann", headers={"if-none-match": tag}).status_code == 304
    job.epoch([("pay", ("ann", 1, 1))])
    follower.wait(min_epoch=3)
    assert asked.get("/state/accounts/ann", headers={"if-none-match": tag}).json()["value"]["balance"] == 6


def test_without_the_program_state_is_read_all_the_same(follower, checkpoint, tmp_path):
    with follow(checkpoint, folder=tmp_path / "other") as bare:
        asked = Asked(application(bare, str(checkpoint)))
        assert asked.get("/state/accounts/ann").json()["value"] == {"owner": "ann", "balance": 5}
        assert asked.get("/state/visits/ann").json()["error"]["code"] == "MP833"
        assert asked.post("/balance", json={"name": "ann"}).json()["error"]["code"] == "MP881"


def test_health_tells_what_keeps_the_follower(asked, follower, monkeypatch):
    assert asked.get("/health").json()["epoch"] == 2
    from millpond.errors import ServeError

    monkeypatch.setattr(follower, "_problem", ServeError("MP889", "another checkpoint lies there"))
    assert asked.get("/health").status_code == 503

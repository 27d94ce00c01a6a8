"""Changes as they are committed, over a real connection, and resumed."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.unit.serve.http.servers import served


def read_events(url, count, headers=None):
    """Return the first events of a stream: kind, name, data."""
    found, event = [], {}
    with httpx.stream("GET", url, headers=headers or {}, timeout=600) as lines:
        assert lines.status_code == 200
        for line in lines.iter_lines():
            name, _, text = line.partition(": ")
            if name in ("id", "event", "data"):
                event[name] = text
            elif not line and "data" in event:
                found.append((event["event"], event["id"], json.loads(event["data"])))
                event = {}
                if len(found) == count:
                    return found
    return found


def keys_of(events):
    return [(data["epoch"], [change["key"] for change in data.get("changes", [])]) for _, _, data in events]


@pytest.fixture
def url(follower, checkpoint):
    with served(follower, str(checkpoint)) as url:
        yield url


def test_changes_are_told_by_epoch_and_resumed_at_any(url, job, follower):
    for number in range(3):
        job.epoch([("pay", ("ann", 1, 1)), ("pay", (f"new{number}", 1, 1))])
    follower.wait(min_epoch=5)
    events = read_events(f"{url}/changes/accounts?since=2", 3)
    assert [(epoch, sorted(keys)) for epoch, keys in keys_of(events)] == [
        (3, ["ann", "new0"]),
        (4, ["ann", "new1"]),
        (5, ["ann", "new2"]),
    ]
    again = read_events(f"{url}/changes/accounts", 2, {"last-event-id": events[0][1]})
    assert keys_of(again) == keys_of(events[1:])


def test_one_key_alone(url, job, follower):
    job.epoch([("pay", ("ann", 1, 1)), ("pay", ("eve", 1, 1))])
    job.epoch([("pay", ("eve", 1, 1))])
    follower.wait(min_epoch=4)
    (_, _, first), (kind, _, last) = read_events(f"{url}/changes/accounts?since=2&key=ann", 2)
    assert first["changes"] == [
        {"kind": "changed", "key": "ann", "old": {"owner": "ann", "balance": 5}, "new": {"owner": "ann", "balance": 6}}
    ]
    assert (kind, last) == ("epoch", {"epoch": 4})


def test_what_can_t_be_told_any_more_begins_anew(url, follower):
    assert httpx.get(f"{url}/changes/accounts?since=99").json()["error"]["code"] == "MP886"
    assert httpx.get(f"{url}/changes/accounts?since=soon").json()["error"]["code"] == "MP884"
    assert httpx.get(f"{url}/changes/nothing").json()["error"]["code"] == "MP240"
    wrong = f"{follower.epoch}.{'0' * 16}"
    assert httpx.get(f"{url}/changes/accounts?since={wrong}").json()["error"]["code"] == "MP887"

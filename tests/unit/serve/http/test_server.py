"""Where a server listens, and what it says when it can't."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from millpond.errors import ServeError
from millpond.serve.http.options import Limits
from millpond.serve.http.server import Address, serve
from tests.unit.serve.http.servers import served


def test_nothing_is_served_beyond_loopback_without_tokens(follower, checkpoint):
    for host in ("0.0.0.0", "::", "192.0.2.1", "state.example"):
        with pytest.raises(ServeError, match="MP880"):
            serve(follower, str(checkpoint), Address(host, 0))


def test_a_port_that_is_taken_is_told(follower, checkpoint):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ServeError, match="MP879"):
        serve(follower, str(checkpoint), Address("127.0.0.1", taken.getsockname()[1]))


def test_a_real_server_answers_and_tells_nothing_of_itself(follower, checkpoint):
    with served(follower, str(checkpoint)) as url:
        answer = httpx.post(f"{url}/balance", json={"name": "bob"})
        assert answer.json()["reply"] == {"owner": "bob", "balance": 7}
        assert httpx.get(f"{url}/state/accounts/bob", headers={"host": "evil.example"}).status_code == 421


def test_an_answer_that_takes_too_long_is_given_up(follower, checkpoint, serving, monkeypatch):
    import asyncio

    async def slowly(*_, **__):
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio, "to_thread", slowly)
    answer = serving(limits=Limits(seconds=0.05)).post("/balance", json={"name": "bob"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "MP893")


def test_a_fault_of_the_server_shows_nothing_of_it(serving, follower, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError(str(Path.home()))

    monkeypatch.setattr(follower, "reading", fail)
    answer = serving().get("/state")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "MP890")
    assert str(Path.home()) not in answer.text

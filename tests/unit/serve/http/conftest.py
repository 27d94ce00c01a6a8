"""A server in this process, asked through its ASGI door."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from millpond import follow
from millpond.serve.http.server import application
from tests.programs.served import Shop

ROWS = [("pay", ("ann", 1, 5)), ("pay", ("bob", 2, 7)), ("buy", ("ann", 1, 3)), ("buy", ("ann", 1, 4))]
MORE = [("see", ("ann", 1, 7)), ("note", ("ann", 1, 7)), ("see", ("bob", 1, 2)), ("pay", ("a/b c", 1, 1))]


class Asked:
    """A client of an application, for tests that are no coroutines."""

    def __init__(self, app):
        self._app = app

    def __call__(self, method, path, base="http://localhost", **more):
        async def ask():
            transport = httpx.ASGITransport(app=self._app, client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path, **more):
        return self("GET", path, **more)

    def post(self, path, **more):
        return self("POST", path, **more)


@pytest.fixture
def follower(job, checkpoint, tmp_path):
    job.epoch(ROWS)
    job.epoch(MORE)
    with follow(checkpoint, Shop, folder=tmp_path / "copy") as follower:
        yield follower


@pytest.fixture
def serving(follower, checkpoint):
    return lambda **more: Asked(application(follower, str(checkpoint), **more))


@pytest.fixture
def asked(serving):
    return serving()

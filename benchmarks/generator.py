"""A process that sends events to the first who connects, at a steady rate: `python -m benchmarks.generator`."""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.data import AMOUNT_MAX
from millpond.clock import SystemClock

LOOPBACK = "127.0.0.1"
TICK_SECONDS = 0.005
"""Events are sent in small bursts: sleeping between any two of them would keep a core busy."""

_CLOCK = SystemClock()


def events(count: int, keys: int, seed: int) -> Iterator[tuple[int, int, float]]:
    """Draw (seq, key, amount); the same for the sender and for the loop that checks."""
    rng = random.Random(seed)
    for seq in range(count):
        yield seq, rng.randrange(keys), float(rng.randrange(AMOUNT_MAX))


def now_ns() -> int:
    """Tell the time on a clock that all processes of the machine share and that never goes back."""
    return int(_CLOCK.ticks() * 1_000_000_000)


@contextmanager
def sending(count: int, rate: int, keys: int, seed: int) -> Iterator[int]:
    """Start the process and give its port; it ends with the block."""
    words = [count, rate, keys, seed]
    command = [sys.executable, "-m", __name__, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None, "asked for above"
            yield int(process.stdout.readline())
        finally:
            process.kill()


def send(connection: socket.socket, count: int, rate: int, keys: int, seed: int) -> None:
    """Send all events, each line with the time at which it was sent."""
    begun = _CLOCK.ticks()
    burst: list[str] = []
    for seq, key, amount in events(count, keys, seed):
        ahead = seq / rate - (_CLOCK.ticks() - begun)
        if ahead > 0:
            _flush(connection, burst)
            _CLOCK.sleep(max(ahead, TICK_SECONDS))
        burst.append(f"{seq},{key},{amount},{now_ns()}\n")
    _flush(connection, burst)


def _flush(connection: socket.socket, burst: list[str]) -> None:
    connection.sendall("".join(burst).encode("ascii"))
    burst.clear()


def main() -> None:
    """Listen, say on which port, send, and stay until the other side or the parent goes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator")
    for name in ("count", "rate", "keys", "seed"):
        parser.add_argument(name, type=int)
    args = parser.parse_args()
    with socket.create_server((LOOPBACK, 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        with connection, contextlib.suppress(ConnectionError):
            send(connection, args.count, args.rate, args.keys, args.seed)
            connection.recv(1)


if __name__ == "__main__":
    main()

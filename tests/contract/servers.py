"""How tests start processes: servers are those of the benchmarks, children find the project by its path."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.servers import REDIS_PASSWORD, RedisServer, free_port, s3_server

__all__ = ["REDIS_PASSWORD", "RedisServer", "child_environment", "free_port", "s3_server"]


def child_environment(**more: str) -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root, **more}

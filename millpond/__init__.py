"""Millpond: a plain Python class with state, run on Spark exactly once.

Write a class, declare its state, mark entry points. Instantiated, it runs as ordinary Python; `Program.on(spark, ...)`
runs the same class as a distributed, checkpointed job with the same results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millpond.checkpoint.forking import fork
from millpond.checkpoint.retention.retention import Keep
from millpond.engine.options import Durability, Tuning
from millpond.engine.time.declared import EventTime
from millpond.errors import Aborted, MillpondError
from millpond.front.frames import graph, read_changes, read_state, windows
from millpond.front.opened import open as open  # noqa: A004 - `import *` leaves Python's own as it is
from millpond.front.program import Program
from millpond.front.session import local_session
from millpond.program import merges
from millpond.program.declare import Partial, Partitioned
from millpond.program.durability import BoundedLoss
from millpond.program.entries import entry
from millpond.program.globals import each, merged
from millpond.program.timers import on_timer
from millpond.program.windows import on_window
from millpond.serve.follower import follow
from millpond.sinks.console import console
from millpond.sinks.functions import foreach_epoch
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from millpond.spelling import missing_name
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector

__version__ = "0.2.0"

if not TYPE_CHECKING:  # Type checkers know which names there are.

    def __getattr__(name: str) -> object:
        raise missing_name(name)


__all__ = [
    "Aborted",
    "BoundedLoss",
    "Counter",
    "Durability",
    "EventTime",
    "Keep",
    "List",
    "Map",
    "Matrix",
    "MillpondError",
    "Partial",
    "Partitioned",
    "Program",
    "Set",
    "Tuning",
    "Value",
    "Vector",
    "console",
    "each",
    "entry",
    "follow",
    "foreach_epoch",
    "fork",
    "graph",
    "local_session",
    "memory",
    "merged",
    "merges",
    "on_timer",
    "on_window",
    "parquet",
    "read_changes",
    "read_state",
    "windows",
]

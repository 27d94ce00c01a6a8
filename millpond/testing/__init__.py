"""For tests of your own programs, without Spark: simulated runs, faults, and moments of your choice.

`simulate` runs rows through a program as a job would; `assert_equals_plain` compares what came of it with plain Python.
For plain instances, `epoch_time` sets what `self.now` says, `event_time` what it says in one row of a feed with event
time, and `fire_timers` calls the handlers of timers and windows that are due. docs/TESTING.md shows them in use.

>>> from millpond import Counter, Partitioned, Program, entry
>>> class Words(Program):
...     counts = Partitioned(Counter[str])
...
...     @entry
...     def add(self, word: str) -> int:
...         self.counts[word] += 1
...         return self.counts[word]
>>> rows = [("add", "mill"), ("add", "pond"), ("add", "mill")]
>>> run = simulate(Words, rows, epochs=3, faults=[crash(at="committed", epoch=2), torn_write(epoch=3)])
>>> run.replies, run.state, run.starts
([1, 1, 2], {'counts': {'mill': 2, 'pond': 1}}, 3)
>>> assert_equals_plain(run)

In reading order: `script`, `disk`, `faults`, `values`, `run`, `plain`, `sinks`.
"""

from __future__ import annotations

from millpond.clock import ManualClock
from millpond.program.semantics.epoch_time import epoch_time, event_time
from millpond.program.timers import Fired, fire_timers
from millpond.testing.faults import Fault, crash, disk_full, io_error, lost_local_state, random_faults, torn_write
from millpond.testing.plain import assert_equals_plain
from millpond.testing.run import EpochReport, LeftOut, Refused, Run, simulate
from millpond.testing.script import EOF, KILL, at, pause

__all__ = [
    "EOF",
    "KILL",
    "EpochReport",
    "Fault",
    "Fired",
    "LeftOut",
    "ManualClock",
    "Refused",
    "Run",
    "assert_equals_plain",
    "at",
    "crash",
    "disk_full",
    "epoch_time",
    "event_time",
    "fire_timers",
    "io_error",
    "lost_local_state",
    "pause",
    "random_faults",
    "simulate",
    "torn_write",
]

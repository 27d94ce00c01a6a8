"""A driver to which things happen, and the world outside that sees what it publishes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from millpond.checkpoint.commit.checkpoint import EpochOutcome, JobAborted
from millpond.compiler import CompiledProgram
from millpond.engine.compute import Computed, Request
from millpond.engine.plan import Level
from millpond.engine.publish.replies import ABORTED, REPLY
from millpond.engine.simulated import Fed, Row, Simulated
from millpond.errors import StorageError
from millpond.program.durability import BoundedLoss
from millpond.sinks.memory import MemorySink
from millpond.sinks.protocol import Staged
from millpond.sinks.tokens import Token
from millpond.storage.door import through
from millpond.testing.disk import FaultyDisk
from tests.fuzz.faults.sites import Sites

SINK_FAILS = "MP309"


@dataclass(slots=True)
class World:
    """What was published so far, whoever did it: a row that comes again must say the same."""

    told: dict[int, tuple[str, str]] = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)

    def take(self, rows: list[dict[str, Any]]) -> None:
        """See the rows of an epoch."""
        for row in rows:
            number = row["row"]
            said = (repr(row.get(REPLY)), repr(row.get(ABORTED)))
            if self.told.setdefault(number, said) != said:
                self.changed.append(number)


@dataclass(frozen=True, slots=True)
class FaultySink(MemorySink):
    """A sink that fails before it has taken an epoch, or after."""

    world: World = field(default_factory=World)
    sites: Sites = field(default_factory=lambda: Sites(0))
    door: FaultyDisk = field(default_factory=lambda: FaultyDisk(Sites(0)))

    def publish(self, token: Token, staged: Staged) -> None:
        """Hand the rows of an epoch to the world."""
        self._maybe("before")
        self.world.take(staged.table().to_pylist())
        MemorySink.publish(self, token, staged)
        self._maybe("after")

    def _maybe(self, when: str) -> None:
        if self.sites.fires(f"sink.dies {when}"):
            self.door.die()
        if self.sites.fires(f"sink.fails {when}"):
            raise StorageError(SINK_FAILS, "the sink is not there")


class FaultyDriver(Simulated):
    """A simulated run whose disk, tasks and sinks fail; all that it does goes through its own door."""

    def __init__(
        self,
        program: CompiledProgram,
        directory: Path,
        sites: Sites,
        world: World,
        *,
        partitions: int,
        key_groups: int,
        instances: int,
        steps_max: int,
        durability: Level | BoundedLoss,
        checkpoint: str,
    ) -> None:
        self._sites = sites
        self._faulty = FaultyDisk(sites)
        sinks = {name: FaultySink(world=world, sites=sites, door=self._faulty) for name in program.entries}
        with through(self._faulty):
            super().__init__(
                program,
                directory,
                partitions,
                key_groups,
                instances,
                sinks=dict(sinks),
                steps_max=steps_max,
                durability=durability,
                checkpoint=checkpoint,
            )

    def attempt(self, rows: Sequence[Row]) -> EpochOutcome:
        """Run one epoch, or fail, or die."""
        with through(self._faulty):
            return self.epoch(rows)

    def compute_rows(self, rows: Fed, request: Request) -> Computed:
        """Run the tasks of an epoch over its rows, or fail."""
        compute = super().compute_rows
        return self._faulty_job(lambda: compute(rows, request))

    def compute_messages(self, left: pa.Table, request: Request) -> Computed:
        """Go on with messages that the parent left, or fail."""
        compute = super().compute_messages
        return self._faulty_job(lambda: compute(left, request))

    def _faulty_job(self, job: Callable[[], Computed]) -> Computed:
        """A job that is aborted before it did anything, or after all of it; or whose tasks all ran twice."""
        if self._sites.fires("job.dies"):
            self._faulty.die()
        if self._sites.fires("job.aborted before"):
            raise _aborted()
        computed = job()
        if self._sites.fires("job.runs twice"):
            assert job().work == computed.work, "two attempts of one job differ"
        if self._sites.fires("job.aborted after"):
            raise _aborted()
        if self._sites.fires("job.dies after"):
            self._faulty.die()
        return computed


def _aborted() -> JobAborted:
    return JobAborted("MP434", "Spark aborted the job of an epoch", found="a fault")

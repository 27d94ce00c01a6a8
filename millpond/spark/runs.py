"""What a job keeps over the epochs of one start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millpond.engine.plan import ProgramPlan
from millpond.engine.publish.publish import Publisher
from millpond.keygroups import Layout
from millpond.program.program import ProgramBase
from millpond.spark.exchange.route import Shape
from millpond.spark.ship import Shipment, pack
from millpond.spark.streaming.ticks import TimerRun


@dataclass(slots=True)
class Run:
    """What stays the same over the epochs of one start, but for who owns which key groups."""

    plan: ProgramPlan
    shipment: Shipment
    shape: Shape
    publisher: Publisher
    sources: tuple[str, ...]
    timers: TimerRun | None = None

    def own(self, layout: Layout, program: type[ProgramBase]) -> None:
        """Go on with other owners: what is shipped to workers changes, what rows carry does not."""
        self.plan = replace(self.plan, layout=layout)
        self.shipment = pack(self.plan, program)
        if self.timers is not None:
            timers = replace(self.timers.plan, layout=layout)
            self.timers = replace(self.timers, plan=timers, shipment=pack(timers, program))

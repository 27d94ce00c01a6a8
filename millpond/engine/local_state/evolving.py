"""A run's state elements: the checkpoint's own, or those that a changed program makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from millpond.checkpoint.commit.checkpoint import Checkpoint, Parent
from millpond.checkpoint.records.manifest import Elements, Manifest, elements_mark
from millpond.checkpoint.records.offers import Evolved
from millpond.checkpoint.records.work import EpochWork
from millpond.checkpoint.upkeep.evolving import plan_evolution
from millpond.checkpoint.upkeep.rewriting import Evolving
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.local_state.rescaling import upkeep_bars
from millpond.engine.schema import element_schemas
from millpond.errors import EpochError
from millpond.storage.contract import Storage


class Schemas:
    """The elements of a program on a checkpoint; what can't be brought over is refused at once."""

    def __init__(
        self, checkpoint: Checkpoint, program: CompiledProgram, local_root: str, *, shown: bool | None
    ) -> None:
        self._checkpoint = checkpoint
        self._name = program.name
        self._local_root = local_root
        self._shown = shown
        self._expiring = {name for name, element in program.elements.items() if element.ttl is not None}
        head = checkpoint.head
        self._wanted = plan_evolution(
            checkpoint.elements,
            program.elements,
            element_schemas(program),
            program.dropped,
            None if head is None else head.times.seen_us,
        )
        if self.change and head is not None and head.pending:
            raise EpochError(
                "MP444",
                "the program's state elements changed before all messages of a batch were processed",
                expected="the program that sent them, until none is left",
                found=f"{len(head.pending)} files of messages of epoch {head.epoch}",
                hint="run it as it was until nothing is left, then change it; nothing was changed",
            )

    @property
    def change(self) -> bool:
        """Whether the checkpoint has other elements than the program makes of them."""
        return self._wanted.elements != self._checkpoint.elements

    @property
    def elements(self) -> Elements:
        """The checkpoint's elements by index, once they are the program's; none before that."""
        return () if self.change else self._checkpoint.elements

    def evolve(self, storage: Storage, publish: Callable[[Manifest], None]) -> None:
        """Give the checkpoint the program's elements, in an epoch of its own, unless it has them."""
        if not self.change:
            return
        with upkeep_bars(self._name, "bringing state elements over", self._shown) as (reading, writing):
            evolving = Evolving(self._wanted, Path(self._local_root), reading, writing)
            self._checkpoint.run_epoch(
                Evolved(elements_mark(self._wanted.elements)),
                lambda parent: self._timed(evolving.compute(storage, parent)),
                publish,
                partitions=1,
            )

    def _timed(self, work: EpochWork) -> EpochWork:
        """Return the work with its times; what was over of an element counts only if its entries still expire."""
        head = self._checkpoint.head
        if head is None:
            return work
        expiring = {index for index, kept in enumerate(self._wanted.elements) if kept and kept.name in self._expiring}
        over = tuple(pair for pair in head.times.over if pair[0] in expiring)
        return replace(work, times=msgspec.structs.replace(head.times, over=over))


def check_elements(parent: Parent, elements: Elements) -> None:
    """Refuse to compute on a parent whose elements another driver changed."""
    if parent.elements != elements:
        raise EpochError(
            "MP445",
            "another driver changed the state elements of the checkpoint",
            expected="those that this driver found",
            found=f"others since epoch {parent.epoch} or before",
            hint="nothing was committed; restart this job, and make sure that only one uses this checkpoint",
        )

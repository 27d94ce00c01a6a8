"""Instances and elements of a run: the checkpoint's own, or others that the user or a changed program asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress

from millpond.checkpoint.commit.checkpoint import Checkpoint, Parent
from millpond.checkpoint.records.manifest import Elements
from millpond.checkpoint.records.work import EpochWork
from millpond.checkpoint.upkeep.evolving import plan_evolution
from millpond.checkpoint.upkeep.rescale import Rescale, check_rescale
from millpond.checkpoint.upkeep.rewriting import Evolving
from millpond.checkpoint.upkeep.scratch import Scratch
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.schema import element_schemas
from millpond.errors import EpochError
from millpond.keygroups import Layout


class Instances:
    """How many instances of partial state a run has; a number that the checkpoint can't get is refused at once."""

    def __init__(self, checkpoint: Checkpoint, program: CompiledProgram, wanted: int | None) -> None:
        self._checkpoint = checkpoint
        self._program = program
        self._wanted = wanted
        if self.change is not None:
            key_groups = checkpoint.genesis.key_groups
            check_rescale(program.elements, key_groups, checkpoint.instances, self.change)

    @property
    def change(self) -> int | None:
        """The number that was asked for, if the checkpoint has another one."""
        return None if self._wanted == self._checkpoint.instances else self._wanted

    def layout(self, partitions: int) -> Layout:
        """Who owns what, with as many instances as the checkpoint has now."""
        key_groups, instances = self._checkpoint.genesis.key_groups, self._checkpoint.instances
        return Layout(key_groups, partitions, instances, self._program.has_partial)

    def last_layout(self, partitions: int | None, usual: int) -> Layout:
        """Who owns what at a start: as it was assigned last, unless another number of partitions is asked for.

        Without either, there are as many partitions as `usual`, or as key groups if these are fewer.
        """
        head, most = self._checkpoint.head, self._checkpoint.genesis.key_groups
        said = None if head is None else head.ownership
        if said is None or partitions not in (None, said.partitions):
            return self.layout(min(usual, most) if partitions is None else partitions)
        return self.renewed(self.layout(said.partitions), said.owners(most))

    def renewed(self, layout: Layout, owners: tuple[int, ...] | None = None) -> Layout:
        """Return a layout with the instances that there are now, and its owners or those given if they still can be."""
        fresh = self.layout(layout.partitions)
        wanted = layout.assigned if owners is None else owners
        if wanted is None:
            return fresh
        divided = fresh.aligned and any(len({wanted[group] for group in atom}) > 1 for atom in fresh.atoms)
        return fresh if divided else fresh.with_owners(wanted)

    @property
    def due(self) -> Rescale | None:
        """What gives the checkpoint the number that was asked for; None if it has it.

        Nothing may be left of the last batch then: its messages are for the instances that were.
        """
        return None if self.change is None else Rescale(self._program.elements, self.change)


def check_instances(parent: Parent, layout: Layout) -> None:
    """Refuse to compute on a parent that another driver gave another number of instances."""
    if parent.instances != layout.instances:
        raise EpochError(
            "MP422",
            "another driver changed the number of instances of partial state",
            expected=f"{layout.instances}, as this driver found it",
            found=f"{parent.instances} since epoch {parent.epoch} or before",
            hint="nothing was committed; restart this job, and make sure that only one uses this checkpoint",
        )


@contextmanager
def shown_scratch(name: str, doing: str, folder: Path, *, shown: bool | None) -> Iterator[Scratch]:
    """Show two bars on a terminal, for reading and for writing state, which go away at the end; or as `shown` says."""
    console = Console(stderr=True)
    hidden = not (console.is_terminal if shown is None else shown)
    with Progress(console=console, transient=True, disable=hidden) as bars:
        read = bars.add_task(f"{name}: reading state", total=None)
        write = bars.add_task(f"{name}: {doing}", total=None)
        yield Scratch(
            folder,
            lambda done, total: bars.update(read, completed=done, total=total),
            lambda done, total: bars.update(write, completed=done, total=total),
        )


class Schemas:
    """The elements of a program on a checkpoint; what can't be brought over is refused at once."""

    def __init__(self, checkpoint: Checkpoint, program: CompiledProgram) -> None:
        self._checkpoint = checkpoint
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

    @property
    def due(self) -> Evolving | None:
        """What gives the checkpoint the program's elements; None if it has them."""
        return Evolving(self._wanted, self._timed) if self.change else None

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

"""Rebalancing: after each epoch, who owns which key groups from the next one on, and what people are told about it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from millpond.clock import Clock, SystemClock
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.elastic.balance import balanced
from millpond.engine.elastic.loadmetrics import HotKeys, observed
from millpond.engine.elastic.observed import Decision, HotKey, Observed, Policy, TaskLoad
from millpond.engine.elastic.options import Elastic, Mode, elastic_of
from millpond.engine.elastic.standard import Standard
from millpond.engine.messages import Control
from millpond.errors import ElasticError
from millpond.keygroups import Layout

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """What is told of an epoch: its partitions, key groups that came to another owner with it, and its load.

    `skew` is how much more rows the fullest partition had than it need. `advice` is what was decided, or would have
    been, or what a program can do about a hot key. `queued_rows` wait in the sources, None if these don't tell.
    """

    partitions: int
    groups_moved: int
    skew: float
    loads: tuple[TaskLoad, ...]
    hot_keys: tuple[HotKey, ...]
    advice: tuple[str, ...]
    queued_rows: int | None = None


class Rebalancer:
    """Watches the epochs of a job. Others may ask for another number of partitions meanwhile."""

    def __init__(
        self, program: CompiledProgram, elastic: Mode | Elastic, usual_partitions: int, clock: Clock = _CLOCK
    ) -> None:
        self._program = program
        self._free = {task.name for entry in program.entries.values() for task in entry.tasks if task.free}
        self._options = elastic_of(elastic)
        most = self._options.most or max(usual_partitions, self._options.least)
        self._policy: Policy = self._options.policy or Standard(self._options, most)
        self._clock = clock
        self._hot = HotKeys()
        self._last: Observed | None = None
        self._ran: Layout | None = None
        self._ended_s: float | None = None
        self._queued: int | None = None
        self._lock = threading.Lock()
        self._asked: int | None = None
        self._decided: Decision | None = None
        self._told_hot: frozenset[tuple[str, str]] = frozenset()

    def ask(self, partitions: int, layout: Layout) -> None:
        """Have another number of partitions from the next epoch on."""
        given: object = partitions
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= layout.key_groups:
            raise ElasticError(
                "MP682",
                "a job can't have so many partitions",
                expected=f"a whole number from 1 to {layout.key_groups}, the key groups",
                found=repr(partitions)[:40],
            )
        with self._lock:
            self._asked = partitions

    def take(self, layout: Layout) -> Layout:
        """Return the layout for the next epoch: as it is, or as it was decided or asked for since the last one."""
        with self._lock:
            asked, self._asked = self._asked, None
            decided, self._decided = self._decided, None
        if asked is not None:
            return layout.with_owners(self._spread(layout, asked), asked)
        if decided is None:
            return layout
        same = (decided.owners, decided.partitions) == (layout.owners(), layout.partitions)
        # Owners that were not assigned stay so: a checkpoint of theirs can be read by older versions.
        owned = layout if same else layout.with_owners(decided.owners, decided.partitions)
        return owned.with_spread(decided.spread)

    def _spread(self, layout: Layout, partitions: int) -> Sequence[int]:
        rows = [0.0] * layout.key_groups if self._last is None else self._last.rows.tolist()
        mean = sum(rows) / len(rows) or 1.0
        # Groups without rows have state that may be large.
        return balanced(layout.owners(), partitions, [count + mean / 4 for count in rows], layout.atoms)

    def queue(self, rows: int | None) -> None:
        """Hear how many rows wait in the sources, before the epoch of which that is told."""
        self._queued = rows

    def note(
        self, epoch: int, layout: Layout, controls: Sequence[Control], seconds: float, fed_rows: int = 0
    ) -> Rebalanced:
        """Learn from an epoch, and decide what comes of it."""
        now = self._clock.ticks()
        interval = seconds if self._ended_s is None else now - self._ended_s
        self._ended_s = now
        hot = self._hot.add(controls)
        # Timers that fire and messages that were left say nothing of the sources.
        queued = self._queued if fed_rows else None
        seen = observed(
            epoch, layout, controls, max(interval, seconds), hot, self._free, seconds, fed_rows, queued_rows=queued
        )
        moved = 0 if self._ran is None else layout.moved_since(self._ran)
        self._last, self._ran = seen, layout
        worked = seen.worked
        skew = float(worked.max() / worked.mean()) if worked.any() else 1.0
        return Rebalanced(layout.partitions, moved, skew, seen.tasks, hot, tuple(self._advice(seen)), queued)

    def _advice(self, seen: Observed) -> list[str]:
        if not self._options.decides:
            return []
        told = []
        decision = self._policy.decide(seen)
        if decision is not None:
            acts = self._options.mode == "act"
            told.append(decision.told if acts else f"{decision.told} (only told, since elastic is not act)")
            if acts:
                with self._lock:
                    self._decided = decision
        return told + self._hot_advice(seen)

    @property
    def seen(self) -> Observed | None:
        """What the last epoch showed."""
        return self._last

    def summary(self) -> str:
        """Describe what the last epoch showed, in lines below those of the program's graph."""
        seen = self._last
        if seen is None:
            return "seen so far: no epoch\n"
        partitions = f"{seen.partitions} partition{'s' * (seen.partitions > 1)}"
        lines = [f"seen in epoch {seen.epoch}, on {partitions} at work for {seen.utilisation:.0%} of the time"]
        if seen.queued_rows is not None:
            lines.append(f"  waiting in the sources: {seen.queued_rows:,} rows")
        lines += [f"  task {task.task}: {task.total_rows:,} rows, {sum(task.seconds):.2f} s" for task in seen.tasks]
        lines += [f"  hot: {hot_key_advice(self._program, hot)}" for hot in seen.hot_keys]
        return "\n".join(lines) + "\n"

    def _hot_advice(self, seen: Observed) -> list[str]:
        """Tell of keys that alone are too much for a partition, once as long as they are."""
        heavy = [hot for hot in seen.hot_keys if hot.share * seen.partitions > self._options.uneven]
        known, self._told_hot = self._told_hot, frozenset((hot.task, hot.key) for hot in heavy)
        return [hot_key_advice(self._program, hot) for hot in heavy if (hot.task, hot.key) not in known]


def hot_key_advice(program: CompiledProgram, hot: HotKey) -> str:
    """Return what a program can do about a key that has more rows than a partition's share: no owner can divide it."""
    tasks = (task for entry in program.entries.values() for task in entry.tasks if task.name == hot.task)
    touched = {access.state for task in tasks for access in task.accesses}
    elements = [element for name, element in program.elements.items() if name in touched and not element.partial]
    told = f"key {hot.key} has {hot.share:.0%} of the rows of {hot.task}, and one key has one owner"
    if not elements:
        return told
    name, kind = elements[0].name, elements[0].type.text
    rewrite = f"{name} = Partial({kind}, merge=...)"
    return f"{told}: if instances of `{name}` may diverge, declare {rewrite} (docs/ELASTIC.md)"

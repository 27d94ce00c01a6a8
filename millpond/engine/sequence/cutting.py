"""An epoch that is cut around a few rows in sequence: the rows before them, these, the rows after them, one commit.

A part runs on the committed parent with what the parts before it changed on top, at the same time and watermark. So it
meets what it would meet as an epoch of its own, and nothing of it is there unless all of it is: a crash, a retry and
a restart find the parent. What parts changed stands in the manifest in their order, where a later file applies last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from millpond.checkpoint.records.deltas import merge_segments, write_delta
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.times import TaskTimes
from millpond.checkpoint.records.work import RUNNING_TOTAL, Changed, EpochWork
from millpond.crashpoints import crashpoint
from millpond.engine.assemble import LATEST
from millpond.engine.messages import Control, Seen
from millpond.engine.plan import Earlier, Level, ProgramPlan
from millpond.state.changes import Changes
from millpond.storage.contract import Storage

CUT_ROWS_MAX: Final = 4
"""An epoch with more rows in sequence than these runs in sequence as a whole: each costs two parts."""

PARTS: Final = f"{LATEST}parts"
"""What counts the parts of an epoch that was cut."""

_LARGEST: Final = f"{LATEST}largest"
_OBJECTS_BY_BYTES: Final = 4
_ENTRY_BYTES: Final = 200
"""What changes of earlier parts take in the memory of a task: each by itself, and by its bytes in a file."""


def can_cut(plan: ProgramPlan) -> bool:
    """Say whether parts of an epoch come out as the whole does.

    Not where rows are logged to be computed again, where changes stay near the host, where the cut itself can be seen
    (relaxed), or where rows of other times see more of what expires than is kept between two parts.
    """
    expires = any(element.ttl is not None for element in plan.program.elements.values())
    return (
        plan.durability is Level.EXACTLY_ONCE
        and not plan.bounded_loss
        and not plan.relaxed
        and not (expires and plan.event_time)
    )


def has_room(plan: ProgramPlan, earlier: Earlier) -> bool:
    """Say whether tasks have room for what earlier parts changed, beside what they change themselves."""
    changed = earlier.changed
    entries = len(changed.inline.keys) + sum(file.entries for file in changed.files)
    size = changed.inline.size_bytes + sum(file.file.size_bytes for file in changed.files)
    return not plan.memory_bytes or entries * _ENTRY_BYTES + _OBJECTS_BY_BYTES * size <= plan.memory_bytes


def after(storage: Storage, mark: str, earlier: Earlier, work: EpochWork, steps: int) -> Earlier:
    """Return what was changed once a part has run, too, which took so many steps."""
    own = merge_segments([one.inline for one in work.changed])
    files = tuple(file for one in work.changed for file in one.files)
    before = earlier.changed
    if before.files or files:
        # Keys of one part are in one file each, those of several parts in the order of these.
        written = (*before.files, *_written(storage, before.inline, mark), *files, *_written(storage, own, mark))
        changed = Changed(files=_last_of_each(written))
    else:
        changed = Changed(Changes.joined([before.inline, own]))
    return Earlier(earlier.steps + steps, changed)


def _written(storage: Storage, changes: Changes, mark: str) -> tuple[StateFile, ...]:
    files = write_delta(storage, changes, mark) if changes.keys else ()
    if files:
        crashpoint("delta.written")
    return files


def _last_of_each(files: Sequence[StateFile]) -> tuple[StateFile, ...]:
    """Return files each once: of two that say the same, what comes in between changes nothing for the later one."""
    return tuple({file.file.name: file for file in reversed(files)}.values())[::-1]


def as_one(works: Sequence[EpochWork], changed: Changed) -> EpochWork:
    """Return the work of parts as that of the epoch; running totals went on from part to part."""
    counters = Counter({PARTS: len(works)})
    largest = max(work.counters.get(_LARGEST, 0) for work in works)
    for work in works:
        counters.update({name: count for name, count in work.counters.items() if not name.startswith(RUNNING_TOTAL)})
    totals = {name: count for name, count in works[-1].counters.items() if name.startswith(RUNNING_TOTAL)}
    told = {**counters, **totals} | ({_LARGEST: largest} if _LARGEST in counters else {})
    return EpochWork(
        changed=(changed,),
        outputs=tuple(file for work in works for file in work.outputs),
        counters=dict(sorted(told.items())),
        observed=TaskTimes.joined([work.observed for work in works]),
    )


def in_turn(controls: Sequence[Control], first: int) -> list[Control]:
    """Return what tasks of a part told, with steps from the `first` on; the first part says how state was found."""
    return [
        msgspec.structs.replace(
            control,
            step=control.step + first,
            busy={step + first: took for step, took in control.busy.items()},
            seen=Seen(control.seen.where) if first else control.seen,
        )
        for control in controls
    ]

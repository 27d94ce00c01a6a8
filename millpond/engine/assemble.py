"""From the control rows of an epoch's tasks to its work: checked for completeness, failures raised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from millpond.checkpoint.records.times import TaskTimes
from millpond.checkpoint.records.work import ENTRIES, RUNNING_TOTAL, Changed, EpochWork, JobAborted
from millpond.engine.durability.setapart import joined_unsynced
from millpond.engine.failures import RowRaisedError, as_error, check_raised
from millpond.engine.messages import Control, Failure, place_key
from millpond.engine.plan import Excluded, ProgramPlan
from millpond.errors import DamagedStoreError, EpochError
from millpond.state.changes import Changes

LATEST = "gathered."
"""How counters begin that tell of one epoch alone."""


def assemble(
    plan: ProgramPlan,
    controls: Sequence[Control],
    before: Mapping[str, int],
    counted: Mapping[str, int] | None = None,
    *,
    tried: Sequence[Excluded] = (),
) -> EpochWork:
    """Put the work of all tasks together, with running totals on top of those of the epoch before.

    `counted` is what was counted outside of tasks, and `tried` are the rows that were expected to raise.

    Raises the first failure: of the first step that has one, since later steps miss its messages, and in input order.
    """
    for error in (as_error(control.failure) for control in controls if control.failure is not None):
        if isinstance(error, DamagedStoreError):
            # It is only a copy: tried again, the epoch finds a new one in its place.
            raise JobAborted(error.code, error.summary, found=error.found, hint=error.hint)
    told = sorted(controls, key=lambda control: (control.step, control.partition))
    raised = [(control.step, one) for control in told for one in control.raised]
    failures = [(control.step, control.failure) for control in controls if control.failure is not None]
    failure = min(failures, key=_when, default=None)
    if plan.relaxed and raised:
        # Whatever failed later may have done so because of them.
        raised.sort(key=_when)
        if failure is None or _when(raised[0]) < _when(failure):
            raise RowRaisedError([one for _, one in raised])
    if failure is not None:
        raise as_error(failure[1])
    if not plan.relaxed:
        check_raised(plan, [one for _, one in sorted(raised, key=lambda told: (told[0], told[1].path))], tried)
    _check_complete(plan, controls)
    by_partition: dict[int, list[Control]] = defaultdict(list)
    counters: Counter[str] = Counter(counted or {})
    for control in sorted(controls, key=lambda control: (control.partition, control.step)):
        by_partition[control.partition].append(control)
        counters.update(control.counters)
        counters[ENTRIES] += control.changed.growth + control.moved.growth
    # In a relaxed program the last step speaks for what all steps changed.
    first = plan.steps - 1 if plan.relaxed else 0
    return EpochWork(
        changed=tuple(_changed(of, first) for _, of in sorted(by_partition.items())),
        outputs=tuple(file for of in by_partition.values() for control in of for file in control.outputs),
        counters=dict(sorted({**counters, **_totals(counters, before)}.items())),
        observed=TaskTimes.joined([control.times for control in controls]),
        pending=tuple(file for of in by_partition.values() for control in of for file in control.pending),
    )


def _when(told: tuple[int, Failure]) -> tuple[int, tuple[int, int, str, int]]:
    """At which step a row failed, and its place in the input."""
    return told[0], place_key(told[1].place)


def _totals(counters: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    totals = Counter({name: count for name, count in before.items() if name.startswith(RUNNING_TOTAL)})
    totals.update({RUNNING_TOTAL + name: n for name, n in counters.items() if not name.startswith(LATEST)})
    return dict(totals)


def _changed(controls: Sequence[Control], first: int) -> Changed:
    """Return what the steps of a partition changed, from the `first` one that speaks for itself."""
    kept = [control.changed for control in controls if control.step >= first]
    kept += [control.moved for control in controls]
    return Changed(
        Changes.joined([one.inline for one in kept]),
        tuple(file for one in kept for file in one.files),
        unsynced=joined_unsynced(
            [unsynced for control in controls for unsynced in (control.changed.unsynced, control.moved.unsynced)]
        ),
    )


def _check_complete(plan: ProgramPlan, controls: Sequence[Control]) -> None:
    if not controls:
        return
    steps, partitions = plan.steps, plan.layout.partitions
    told = Counter((control.step, control.partition) for control in controls)
    wanted = {(step, partition) for step in range(steps) for partition in range(partitions)}
    if set(told) != wanted or max(told.values()) > 1:
        raise _incomplete(
            f"one report from each of {len(wanted)} tasks", f"{len(told)} tasks in {len(controls)} reports"
        )
    incomplete = sum(control.incomplete for control in controls)
    if incomplete and not any(control.raised for control in controls):
        raise _incomplete("an answer from each instance to every row", f"{incomplete} answers to rows that lack some")
    for step in range(1, steps):
        sent = sum(control.sent for control in controls if control.step == step - 1)
        received = sum(control.received for control in controls if control.step == step)
        if sent != received:
            raise _incomplete(f"{sent} messages at step {step}", f"{received}")


def _incomplete(expected: str, found: str) -> EpochError:
    return EpochError(
        "MP431",
        "tasks of this epoch disagree",
        expected=expected,
        found=found,
        hint="nothing was committed; please report it with the settings of the Spark session",
    )

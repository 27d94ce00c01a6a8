"""A program run as a job runs it, in this process: compiled, on partitions, in epochs, through faults and restarts.

>>> from millpond import Counter, Partitioned, Program, entry
>>> class Words(Program):
...     counts = Partitioned(Counter[str])
...
...     @entry
...     def add(self, word: str) -> int:
...         self.counts[word] += 1
...         return self.counts[word]
>>> run = simulate(Words, [("add", "mill"), ("add", "pond"), ("add", "mill")], partitions=3)
>>> [(report.epoch, report.rows, report.attempts) for report in run.reports]
[(1, 3, 1)]
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from millpond.clock import ManualClock
from millpond.compiler.compile import compile_program
from millpond.crashpoints import heard_by
from millpond.engine.arrowtypes import arrow_type, reader
from millpond.engine.plan import BadRows
from millpond.engine.publish.replies import ABORTED, REPLY
from millpond.engine.simulated import Simulated, number_column
from millpond.engine.time.declared import EventTime
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import FeedError, MillpondError, RowError
from millpond.lengths import MICROSECOND, Length
from millpond.program import EntryPoint, ProgramBase
from millpond.program.semantics.epoch_time import epoch_time, moment_of, us_of
from millpond.program.settings import configured
from millpond.program.timers import Fired
from millpond.sinks.memory import MemorySink
from millpond.state.local.localstore import LocalStore
from millpond.storage.backends.files import FileStorage
from millpond.storage.door import through
from millpond.testing.disk import FaultyDisk, ProcessDied
from millpond.testing.faults import LOCAL_STATE, Fault, Planned
from millpond.testing.script import Mark, Pause, Step, Turn, check_rows, turns_of
from millpond.testing.values import committed_state

START: Final = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
"""What the clock of a run says at first, if nobody gives it another."""

_NO_TIME: Final = datetime.timedelta()


@dataclass(frozen=True, slots=True)
class Refused:
    """Stands for the reply of a row that the program refused by `self.abort(reason)`."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Stands for the reply of a row that was left out: it was bad, the program raised on it, or it was late.

    All of them are equal: what a reason says is not part of what a program does.
    """

    reason: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What came of an epoch: its number as it was cut, its rows, and how many tries it took.

    One without rows is of timers that were due after a pause, and has the number of the epoch before it. `now` is its
    time. With event time, rows of the next epoch are late by `watermark`, and none has a time before
    `horizon`.
    """

    epoch: int
    rows: int
    attempts: int
    now: datetime.datetime
    watermark: datetime.datetime | None = None
    horizon: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """How a run was asked for; `simulate` says what they mean."""

    partitions: int
    instances: int | None
    skips: bool
    disorder: datetime.timedelta
    lateness: datetime.timedelta
    drops_late: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a simulated run.

    `replies` are in the order of the rows, one for each: `Refused` and `LeftOut` stand for what has none. `state` is
    by element, as plain values; of a partial element it is the list of its instances. `fired` are the timers and
    windows whose handlers reply, `failures` why rows were left out, by their number from 0. `faults` are those that
    happened, in their order, and `starts` says how many processes there were.
    """

    program: type[ProgramBase]
    turns: tuple[Turn, ...]
    options: Options
    replies: list[Any]
    state: dict[str, Any]
    fired: list[Fired]
    failures: dict[int, str]
    reports: list[EpochReport]
    faults: list[Fault]
    starts: int


def simulate(
    program: type[ProgramBase],
    rows: Iterable[Step],
    *,
    epochs: int | Sequence[int] = 1,
    partitions: int = 2,
    instances: int | None = None,
    faults: Iterable[Fault] = (),
    on_bad_row: Literal["fail", "skip"] = "fail",
    clock: ManualClock | None = None,
    disorder: Length = _NO_TIME,
    lateness: Length = _NO_TIME,
    late: Literal["keep", "drop"] = "keep",
    close: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Run rows through a program as a job would, with a checkpoint in a temporary folder, and tell what came of it.

    A row is a tuple of the name of an entry point and its arguments; between rows may stand `EOF`, `KILL` and
    `pause(length)`. `epochs` is how many epochs of about equal size there are, or the numbers of rows before which
    they are cut. `faults` happen in the epochs that they name; the run starts again from its checkpoint after each that
    it does not survive. Rows on which the program raises fail the run, or are skipped (`on_bad_row`). Every epoch takes
    a millisecond of the `clock`, and nothing else but a pause lets time pass.

    Rows of `at(moment, row)` have event time: `disorder` and `lateness` are those of a feed, `late` rows are worked on
    or dropped, and `close` ends event time with the last epoch, as a bounded run does. `settings` are those that
    `Program.on` takes.

    >>> from millpond import Counter, Partitioned, Program, entry
    >>> class Words(Program):
    ...     counts = Partitioned(Counter[str])
    ...
    ...     @entry
    ...     def add(self, word: str) -> int:
    ...         self.counts[word] += 1
    ...         return self.counts[word]
    >>> run = simulate(Words, [("add", "mill"), ("add", "pond"), ("add", "mill")], epochs=2)
    >>> run.replies, run.state
    ([1, 1, 2], {'counts': {'mill': 2, 'pond': 1}})
    """
    _check_policy("bad rows", on_bad_row, ("fail", "skip"))
    _check_policy("late rows", late, ("keep", "drop"))
    program = configured(program, settings)
    turns = turns_of(rows, epochs)
    check_rows(program, turns)
    feed = EventTime("", disorder, lateness)
    lengths = feed.disorder_us * MICROSECOND, feed.lateness_us * MICROSECOND
    options = Options(partitions, instances, on_bad_row == "skip", *lengths, late == "drop", close)
    turned = clock or ManualClock(us_of(START) // 1000)
    with tempfile.TemporaryDirectory(prefix="millpond-", ignore_cleanup_errors=True) as folder:
        simulation = _Simulation(program, turns, options, Planned(faults), turned, Path(folder))
        try:
            return simulation.run()
        finally:
            simulation.end()


def _check_policy(of: str, given: str, known: tuple[str, str]) -> None:
    if given not in known:
        expected = " or ".join(f'"{one}"' for one in known)
        raise FeedError("MP512", f"no such policy for {of}", expected=expected, found=repr(given)[:60])


@dataclass(frozen=True, slots=True)
class _Outlet(MemorySink):
    """A sink in memory that knows of which epochs its rows are."""

    def numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return ((token.epoch, row) for token, rows in self._epochs.items() for row in rows)


class _Simulation:
    """The processes of a run, one after the other, over one folder; sinks are the world, which outlives them."""

    def __init__(
        self,
        program: type[ProgramBase],
        turns: list[Turn],
        options: Options,
        faults: Planned,
        clock: ManualClock,
        folder: Path,
    ) -> None:
        self._program, self._compiled, self._points = program, compile_program(program), program.entries()
        self._turns, self._options = turns, options
        self._faults, self._clock, self._folder = faults, clock, folder
        self._driver: Simulated | None = None
        self._disk = FaultyDisk(faults)
        self._kills = False
        self._starts = 0
        self._reports: list[EpochReport] = []
        self._sinks = {name: _Outlet() for name in self._points}
        self._letters = {name: MemorySink() for name in self._points}
        self._late = {name: MemorySink() for name in self._points}

    def run(self) -> Run:
        """Take the turns one after the other, and tell what came of them."""
        last = max(turn.number for turn in self._turns if turn.rows)
        for turn in self._turns:
            if turn.rows or turn.kills:
                self._take(turn, ends=self._options.closes and turn.number == last)
            if isinstance(turn.then, Pause):
                self._pass_time(turn, turn.then.length)
            elif turn.then is Mark.EOF:
                self.end()
        if self._faults.left:
            raise FeedError(
                "MP584",
                "faults were planned that did not happen",
                expected=f"an epoch from 1 to {last}, and calls that it makes",
                found=", ".join(map(str, self._faults.left))[:300],
            )
        return self._outcome()

    def end(self) -> None:
        """End the process, if there is one, as a run ends that has done its work."""
        if self._driver is not None:
            self._driver.close()
        self._lose_process()

    def _take(self, turn: Turn, *, ends: bool) -> None:
        """Run the rows of a turn until they are committed."""
        self._clock.advance(1)
        attempts = 0
        for rows in turn.kills:
            attempts += bool(rows)
            self._kill_after(turn, rows)

        def offer(driver: Simulated) -> None:
            if driver.batch < turn.number:
                driver.epoch(turn.rows, turn.times_us, ends=ends)

        done = not turn.rows
        while not done:
            attempts += 1
            done = self._try(turn.number, offer)
        if turn.rows:
            self._report(turn, len(turn.rows), attempts)

    def _kill_after(self, turn: Turn, rows: int) -> None:
        """Let the process die when it has computed some rows of a turn; if there are none, at once."""
        self._kills = True
        if rows:
            self._try(None, lambda driver: driver.epoch(turn.rows[:rows], turn.times_us[:rows]))
        self._kills = False
        self._lose_process()

    def _pass_time(self, turn: Turn, length: datetime.timedelta) -> None:
        self._clock.sleep(length.total_seconds())
        ticked: list[object] = []
        self._try(None, lambda driver: ticked.append(driver.tick()))
        if ticked != [None]:
            self._report(turn, 0, 1)

    def _try(self, epoch: int | None, work: Callable[[Simulated], object]) -> bool:
        """Let a process work, a new one if there is none; whether it is still there afterwards."""
        self._faults.begin(epoch)
        if self._faults.fires(LOCAL_STATE):
            self._lose_process()
            shutil.rmtree(self._local, ignore_errors=True)
        try:
            with through(self._disk), heard_by(self._reached), epoch_time(self._clock.now_ms() * 1000):
                self._driver = self._driver or self._started()
                self._layout = self._driver.layout
                work(self._driver)
        except ProcessDied:
            self._lose_process()
        except RowError:
            raise
        except (MillpondError, OSError):
            if not self._faults.striking:
                raise
            self._lose_process()
        return self._driver is not None

    def _reached(self, point: str) -> None:
        if (self._kills and point == "epoch.computed") or self._faults.fires(f"point.{point}"):
            self._disk.die()

    def _lose_process(self) -> None:
        """Begin again with what is on disks: a new process has opened nothing yet."""
        self._driver = None
        self._disk = FaultyDisk(self._faults)
        LocalStore.close_below(self._folder)

    @property
    def _local(self) -> Path:
        return self._folder / f"local-{self._options.partitions}"

    def _started(self) -> Simulated:
        self._starts += 1
        fed = [name for name, point in self._points.items() if not point.timer]
        return Simulated(
            self._compiled,
            self._folder,
            self._options.partitions,
            instances=self._options.instances,
            sinks=self._sinks,
            dead_letters=self._letters,
            bad_rows=dict.fromkeys(fed, BadRows.DEAD_LETTER if self._options.skips else BadRows.FAIL),
            event_time=self._feed_times(fed),
            late=self._late if self._options.drops_late else False,
        )

    def _feed_times(self, fed: list[str]) -> dict[str, FeedTime] | None:
        """Return the event time of each entry point; one that gets no rows is no feed, and holds no other back."""
        if not any(turn.times_us for turn in self._turns):
            return None
        time = FeedTime(self._options.disorder // MICROSECOND, self._options.lateness // MICROSECOND)
        used = {name for turn in self._turns for name, _ in turn.rows}
        return {name: time if name in used else replace(time, idle_us=0) for name in fed}

    def _report(self, turn: Turn, rows: int, attempts: int) -> None:
        assert self._driver is not None
        event = self._driver.times.event
        marks = (None, None) if event is None else (event.watermark_us, event.horizon_us)
        times = (None if us is None else moment_of(us) for us in marks)
        now = moment_of(self._clock.now_ms() * 1000)
        self._reports.append(EpochReport(turn.number - (not rows and not turn.rows), rows, attempts, now, *times))

    def _outcome(self) -> Run:
        failures = {letter["order_by"]: letter["reason"] for sink in self._letters.values() for letter in sink.rows()}
        return Run(
            self._program,
            tuple(self._turns),
            self._options,
            self._replies(failures),
            self._state(),
            self._fired(),
            dict(sorted(failures.items())),
            self._reports,
            self._faults.happened,
            self._starts,
        )

    def _state(self) -> dict[str, Any]:
        storage, stored = FileStorage(self._folder / "checkpoint"), list(self._compiled.elements)
        return committed_state(storage, self._layout, self._program.elements(), stored)

    def _replies(self, failures: dict[int, str]) -> list[Any]:
        replies: dict[int, Any] = {number: LeftOut(reason) for number, reason in failures.items()}
        for name, point in self._points.items():
            column = number_column(point)
            for row in [] if point.timer else self._sinks[name].rows():
                refused = row.get(ABORTED)
                replies[row[column]] = _reply(point, row) if refused is None else Refused(refused)
            replies |= {row[column]: LeftOut(f"late by {row['late_by']} s") for row in self._late[name].rows()}
        return [replies.get(number) for number in range(sum(len(turn.rows) for turn in self._turns))]

    def _fired(self) -> list[Fired]:
        """Return what handlers replied, in the order in which they were called: by epoch, then by number."""
        found: list[tuple[int, int, Fired]] = []
        for name, point in self._points.items():
            for epoch, row in self._sinks[name].numbered() if point.timer else ():
                key, at = (_read(row[column], hint) for column, hint in point.parameters)
                found.append((epoch, row[number_column(point)], Fired(name, key, at, _reply(point, row))))
        return [fired for *_, fired in sorted(found, key=lambda one: one[:2])]


def _reply(point: EntryPoint, row: dict[str, Any]) -> Any:
    return _read(row[REPLY], point.returns) if point.replies else None


def _read(value: Any, hint: Any) -> Any:
    """Return a value of a sink as the program gave it: tuples, sets and classes are other things in columns."""
    (read,) = reader(hint)(pa.array([value], arrow_type(hint)))
    return read

"""A follower: the committed state of a checkpoint, kept up with the job that writes it, without Spark.

>>> import tempfile
>>> from millpond import Counter, Partitioned, Program, entry, follow
>>> from millpond.compiler.compile import compile_program
>>> from millpond.engine.simulated import Simulated
>>> class Words(Program):
...     counts = Partitioned(Counter[str])
...
...     @entry
...     def add(self, word: str) -> None:
...         self.counts[word] += 1
...
...     @entry
...     def count(self, word: str) -> int:
...         return self.counts[word]
>>> folder = Path(tempfile.mkdtemp())
>>> job = Simulated(compile_program(Words), folder, partitions=2)
>>> with follow(folder / "checkpoint", Words, folder=folder / "copy") as follower:
...     _ = job.epoch([("add", ("mill",)), ("add", ("mill",))])
...     with follower.read(min_epoch=1) as state:
...         state.epoch, state["counts"].get("mill"), state.ask("count", "mill")
(1, 2, 2)
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from millpond.checkpoint.forking import point_of
from millpond.checkpoint.read.history import History, Point, kept_epochs
from millpond.checkpoint.records.manifest import manifest_hash, manifest_name
from millpond.clock import Clock, SystemClock
from millpond.errors import MillpondError, MissingError, ServeError
from millpond.front.opened import OpenCheckpoint
from millpond.lengths import Length, length_us
from millpond.program.program import ProgramBase
from millpond.program.settings import configured
from millpond.serve.entrypoints import Answering
from millpond.serve.followed import Followed
from millpond.serve.noticing import noticing_of
from millpond.serve.replica import Held, Replica
from millpond.storage.open import open_storage

WITHIN: Final = "5 s"
"""How long a reader waits for what it asked for, if it does not say."""

PAUSE_S: Final = 0.25
"""After a failed look the next one waits so long."""

_LOG = logging.getLogger("millpond.serve")
_CLOCK = SystemClock()
_US = 1_000_000


def follow(
    checkpoint: str | Path,
    program: type[ProgramBase] | None = None,
    *,
    folder: str | Path | None = None,
    poll: Length = "50 ms",
    settings: Mapping[str, Any] | None = None,
) -> Follower:
    """Follow a checkpoint: keep its committed state beside this process, and answer from it, without Spark.

    `checkpoint` is what the job was given; the job runs or does not, and knows nothing of it. With its `program`, keys
    and values are of the program's classes, and entry points that change nothing can be asked. `folder` is where the
    copy lies, one for each follower; without, it is among the temporary files. Where the file system does not tell of
    commits, somebody looks every `poll`. `settings` are those of the program.
    """
    poll_us = length_us(poll, "poll", refused_length, least=1)
    found = None if program is None else configured(program, settings)
    return Follower(str(checkpoint), found, folder=folder, poll_s=poll_us / _US)


def refused_length(expected: str, found: str) -> ServeError:
    """Return the error for what is no length of time."""
    return ServeError("MP884", "this is no length of time", expected=expected, found=found)


class Follower:
    """Follows one checkpoint; every reader sees one committed epoch, and which one it is."""

    def __init__(
        self,
        checkpoint: str,
        program: type[ProgramBase] | None = None,
        *,
        folder: str | Path | None = None,
        poll_s: float = 0.05,
        clock: Clock = _CLOCK,
    ) -> None:
        self._storage = open_storage(checkpoint)
        self._program = program
        self._clock = clock
        history = History(self._storage)
        self._uuid = history.genesis.uuid
        self._answering = None if program is None else Answering(program, history.genesis)
        self._replica = Replica(self._storage, folder)
        self._turn = threading.Condition()
        self._following = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        self._problem: MillpondError | None = None
        self._closed = False
        try:
            self._history, self._point, self._held = self._opened(history)
        except BaseException:
            self._replica.close()
            raise
        self._before: dict[int, str] = {self._point.epoch: self._point.hash}
        self._looked = clock.ticks()
        self._noticing = noticing_of(self._storage, poll_s)
        self._thread = threading.Thread(target=self._run, name="millpond-follower", daemon=True)
        self._thread.start()

    @property
    def epoch(self) -> int:
        """The newest epoch that this follower has."""
        return self._point.epoch

    @property
    def checkpoint(self) -> str:
        """The unique name of the checkpoint."""
        return self._uuid

    @property
    def problem(self) -> MillpondError | None:
        """What keeps the follower from going on, if anything does: it answers from the epoch that it has."""
        return self._problem

    @property
    def age_s(self) -> float:
        """For how many seconds nobody looked whether there is a newer epoch."""
        return self._clock.ticks() - self._looked

    @property
    def answering(self) -> Answering | None:
        """What runs entry points; None if the checkpoint is followed without its program."""
        return self._answering

    # --- reading

    @contextmanager
    def read(
        self,
        *,
        min_epoch: int | str | None = None,
        max_age: Length | None = None,
        at: int | str | None = None,
        within: Length = WITHIN,
    ) -> Iterator[Followed | OpenCheckpoint]:
        """Read one committed epoch: the newest that the follower has, or an older one that is kept, `at` a number.

        With `min_epoch` it is that one or a later one: an epoch's number, or the `session` of an earlier read, which
        makes reads that follow each other monotone. With `max_age` somebody looked for newer ones at most so long ago.
        What is not so yet is waited for, `within` some time, and then refused (MP886).
        """
        if at is not None:
            with OpenCheckpoint(self._storage, self._program, at) as older:
                yield older
            return
        self.wait(min_epoch=min_epoch, max_age=max_age, within=within)
        with self._turn:
            history, point, held = self._history, self._point, self._held.take()
        try:
            yield Followed(history, point, held, self._program, self._answering)
        finally:
            held.give_back()

    @asynccontextmanager
    async def reading(
        self,
        *,
        min_epoch: int | str | None = None,
        max_age: Length | None = None,
        at: int | str | None = None,
        within: Length = WITHIN,
    ) -> AsyncIterator[Followed | OpenCheckpoint]:
        """Read one committed epoch, as `read` does, without blocking the loop while it waits."""
        if at is None and not self.is_ready(min_epoch, max_age):
            await asyncio.to_thread(self.wait, min_epoch=min_epoch, max_age=max_age, within=within)
        with self.read(min_epoch=min_epoch, max_age=max_age, at=at, within=within) as state:
            yield state

    @property
    def session(self) -> str:
        """The newest epoch and its timeline, to be handed to the next read as `min_epoch`."""
        return session_of(self._point.epoch, self._point.hash)

    def is_ready(self, min_epoch: int | str | None = None, max_age: Length | None = None) -> bool:
        """Say whether a read with these wishes need not wait; one that can't come true is refused."""
        self._check_open()
        return self._is_at(min_epoch) and self._looked >= self._least(max_age)

    def wait(
        self, *, min_epoch: int | str | None = None, max_age: Length | None = None, within: Length = WITHIN
    ) -> int:
        """Wait until the follower has an epoch, or has looked for newer ones; return the epoch that it has then."""
        since = self._least(max_age)
        until = self._clock.ticks() + length_us(within, "within", refused_length) / _US
        self._check_open()
        if self._looked < since:
            self.refresh()
        with self._turn:
            while not (self._is_at(min_epoch) and self._looked >= since):
                self._check_open()
                left = until - self._clock.ticks()
                if left <= 0:
                    raise self._too_old(min_epoch, max_age)
                self._turn.wait(left)
            return self._point.epoch

    def _is_at(self, wanted: int | str | None) -> bool:
        if wanted is None:
            return True
        number, digits = _session(wanted)
        if digits and number <= self._point.epoch:
            known = self._hash_of(number)
            if known is not None and not known.startswith(digits):
                raise ServeError(
                    "MP887",
                    "the checkpoint was taken back behind what this session has seen",
                    expected=f"epoch {number} with hash {digits}",
                    found=f"epoch {number} with hash {known[: len(digits)]}",
                    hint="begin a new session; what it saw is not part of the checkpoint any more",
                )
        return self._point.epoch >= number

    def _hash_of(self, epoch: int) -> str | None:
        """Return the hash of an epoch on the timeline that is followed, if it is known."""
        if epoch == self._point.epoch:
            return self._point.hash
        deltas = () if self._point.manifest is None else self._point.manifest.deltas
        told = next((delta.parent for delta in deltas if delta.epoch == epoch + 1), None)
        return told or self._before.get(epoch)

    def _least(self, max_age: Length | None) -> float:
        """Return the moment at or after which somebody must have looked, for an answer that is asked for now."""
        return (
            -math.inf if max_age is None else self._clock.ticks() - length_us(max_age, "max_age", refused_length) / _US
        )

    def _too_old(self, min_epoch: int | str | None, max_age: Length | None) -> ServeError:
        wishes = [f"epoch {min_epoch} or later"] * (min_epoch is not None)
        wishes += [f"a look for newer epochs at most {max_age} ago"] * (max_age is not None)
        problem = "" if self._problem is None else f"; following stopped: {self._problem.summary}"
        return ServeError(
            "MP886",
            "the follower has nothing as new as that",
            expected=" and ".join(wishes),
            found=f"epoch {self._point.epoch}, {self.age_s:.1f} s after the last look{problem}",
            hint="wait longer, or ask for less",
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ServeError("MP888", "the follower is closed", expected="an open one", found="a closed one")

    # --- following

    def refresh(self) -> bool:
        """Look for a newer epoch and take it; say whether there was one. Others do this all the time."""
        with self._following:
            if self._closed:
                return False
            begun = self._clock.ticks()
            moved = self._move()
            with self._turn:
                self._looked, self._problem = begun, None
                self._turn.notify_all()
        if moved:
            for listener in list(self._listeners):
                listener()
        return moved

    def _move(self) -> bool:
        epochs, _ = kept_epochs(self._storage)
        newest = epochs[-1] if epochs else 0
        if newest == self._point.epoch and self._is_same():
            return False
        history = History(self._storage)
        if history.genesis.uuid != self._uuid:
            raise ServeError(
                "MP889",
                "another checkpoint lies where the one was that is followed",
                expected=f"checkpoint {self._uuid}",
                found=f"checkpoint {history.genesis.uuid}",
                hint="start a new follower",
            )
        found = self._opened(history)
        point = found[1]
        with self._turn:
            old, before = self._held, self._point
            self._history, self._point, self._held = found
            if _follows(point, before):
                self._before[before.epoch] = before.hash
            else:
                _LOG.warning("checkpoint %s was taken back: epoch %s follows %s", self._uuid, point.epoch, before.epoch)
                self._before = {epoch: name for epoch, name in self._before.items() if epoch < point.epoch}
            self._before[point.epoch] = point.hash
            while len(self._before) > _KNOWN_MAX:
                del self._before[min(self._before)]
            self._turn.notify_all()
        old.give_back()
        return True

    def _is_same(self) -> bool:
        """Say whether the newest manifest is still the one that the follower has."""
        if not self._point.epoch:
            return True
        try:
            return manifest_hash(self._storage.get(manifest_name(self._point.epoch))) == self._point.hash
        except MissingError:
            return False

    def _opened(self, history: History) -> tuple[History, Point, Held]:
        point = point_of(history, None)
        history.check_here(point)
        return history, point, self._replica.view(history.genesis, point)

    def _run(self) -> None:
        while not self._closed:
            self._noticing.wait()
            try:
                self.refresh()
            except MillpondError as error:
                self._tell(error)
            except Exception as error:  # noqa: BLE001 - a fault of ours is told, and does not end the following
                _LOG.exception("following failed")
                self._tell(ServeError("MP890", "following failed", found=f"{type(error).__name__}: {error}"[:200]))

    def _tell(self, error: MillpondError) -> None:
        if self._problem is None or self._problem.code != error.code:
            _LOG.warning("following stopped for now: %s", error.summary)
        with self._turn:
            self._problem = error
        self._clock.sleep(PAUSE_S)

    def on_epoch(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have somebody called after each new epoch, by the thread that follows; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def close(self) -> None:
        """Stop following; what is being read stays readable until it is given back."""
        if self._closed:
            return
        self._closed = True
        self._noticing.close()
        self._thread.join()
        with self._following:
            self._held.give_back()
            if self._answering is not None:
                self._answering.forget()
            self._replica.close()
        with self._turn:
            self._turn.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_KNOWN_MAX: Final = 4096
_DIGITS: Final = 16


def session_of(epoch: int, name: str) -> str:
    """Return an epoch on its timeline as a text."""
    return f"{epoch}.{name[:_DIGITS]}"


def _session(wanted: int | str) -> tuple[int, str]:
    """Return the number of an epoch, and how its hash begins if that was said."""
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0:
        return wanted, ""
    number, _, digits = str(wanted).partition(".")
    if not (isinstance(wanted, str) and number.isascii() and number.isdecimal() and len(number) < _DIGITS):
        raise ServeError(
            "MP884",
            "this is no epoch to wait for",
            expected="the number of an epoch, or the session of an earlier read",
            found=repr(wanted)[:60],
        )
    return int(number), digits


def _follows(point: Point, before: Point) -> bool:
    """Say whether an epoch comes after another one on the same timeline, as far as its manifest tells."""
    deltas = () if point.manifest is None else point.manifest.deltas
    told = next((delta.parent for delta in deltas if delta.epoch == before.epoch + 1), None)
    return point.epoch > before.epoch and told in (None, before.hash)

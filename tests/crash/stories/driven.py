"""Stories of a tiny driver over a checkpoint, in which the state after an epoch follows from its number alone."""

from __future__ import annotations

import contextlib

from millpond.checkpoint.forking import forget_fork, fork
from millpond.checkpoint.read.history import History, kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import GENESIS_NAME, manifest_name
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.repairing import repair
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import add_savepoint, savepoints
from millpond.checkpoint.snapshots import background, snapshots
from millpond.clock import ManualClock
from millpond.errors import MillpondError
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.composed.layered import TrialStorage
from millpond.storage.open import forks
from tests.crash.stories.place import redraw, some_keep
from tests.unit.checkpoint.keeping import QUERY, Driver, after, check_kept, garbage, stored

CYCLE = 14
"""Deltas come again after so many epochs, when others with the same bytes may be condemned."""

STEP_MS = 1000


def row_of(epoch, whose=""):
    values = dict.fromkeys("abcd", f"{whose}{epoch % CYCLE}")
    return values | {"e": None if epoch % 3 else "e"}


def models(until, whose="", since=0):
    """The state after each epoch; a fork goes its own way after the epoch that it began at."""
    held = {0: {}}
    for epoch in range(1, until + 1):
        held[epoch] = after(held[epoch - 1], row_of(epoch, whose if epoch > since else ""))
    return held


class Drawn(Driver):
    """A driver on any number of partitions; the time is that of its epochs."""

    def __init__(self, storage, keep, partitions, publish):
        super().__init__(storage, keep, ManualClock(), publish)
        self.clock.advance(STEP_MS * self.checkpoint.epoch)
        self.partitions = partitions

    def go(self, until, whose=""):
        while (epoch := self.checkpoint.epoch + 1) <= until:
            self.clock.advance(STEP_MS)
            head = self.checkpoint.head
            batch = 0 if head is None or head.stream is None else head.stream.number + 1
            changes = row_of(epoch, whose)
            self.checkpoint.run_epoch(
                Batch(QUERY, batch, ("words",)),
                lambda parent, changes=changes: self.work(changes, parent.mark),
                self.publish,
                partitions=self.partitions,
            )


def driver(place, rng, keep, name="checkpoint"):
    return Drawn(place.open(name), keep, rng.choice((2, 3, 5)), lambda manifest: place.tell(name, manifest.epoch))


def check_checkpoint(place, name="checkpoint", whose="", since=0):
    """Every epoch that is there is whole, and none that was published is lost."""
    storage = place.open(name)
    there, _ = kept_epochs(storage)
    newest = there[-1] if there else 0
    assert newest >= place.told(name), "an epoch was published, and is gone"
    check_kept(storage, models(newest, whose, since))
    return newest


def check_tidy(place, name="checkpoint"):
    """Nothing is wrong, and what nobody needs can be deleted to the last file."""
    storage = place.open(name)
    assert verify(storage, everything=True).problems == []
    clock = ManualClock(10**9)
    for _ in range(3):
        collect_all(storage, Keep(last=2, grace="0 s"), clock)
        clock.advance(STEP_MS)
    left = [file for file in garbage(storage) if not file.startswith(("snapshots/", "merged/"))]
    assert left == []
    check_checkpoint(place, name)


class Tidying:
    """Epochs are committed, and older ones are deleted behind them."""

    EPOCHS = 34

    def prepare(self, place):
        pass

    def go_on(self, place, rng):
        redraw(rng)
        driver(place, rng, some_keep(rng, grace="2 s")).go(self.EPOCHS)
        storage = place.open()
        if isinstance(storage, LogStorage):
            storage.compact()
            storage.close()

    def check(self, place):
        assert check_checkpoint(place) <= self.EPOCHS

    def check_end(self, place):
        assert check_checkpoint(place) == self.EPOCHS
        check_tidy(place)


class Elsewhere(Tidying):
    """Snapshots are made by a process of their own, which the driver's death leaves behind."""

    EPOCHS = 12

    def go_on(self, place, rng):
        background.AT_ONCE_BYTES = 0
        snapshots.DELTA_EPOCHS_MAX = 3
        running = driver(place, rng, Keep.all())
        running.go(self.EPOCHS // 2)
        asked = running.checkpoint._snapshots._process
        if asked is not None:
            asked.wait()
        running.go(self.EPOCHS)
        running.checkpoint.close()

    def check_end(self, place):
        assert check_checkpoint(place) == self.EPOCHS
        assert verify(place.open(), everything=True).problems == []


class Forking:
    """A savepoint, a fork that reads from its base, a copy, and a base that deletes what it may."""

    BASE, AT, MORE = 10, 6, 5
    TRIES = 4

    def prepare(self, place):
        Drawn(place.open(), Keep.all(), 2, lambda manifest: place.tell("checkpoint", manifest.epoch)).go(self.BASE)

    def go_on(self, place, rng):
        redraw(rng)
        base = place.open()
        add_savepoint(base, "kept", self.AT)
        for kind in ("copy", "fork") if forks(place.url()) else ("copy",):
            self._forked(place, rng, kind)
        driver(place, rng, some_keep(rng)).go(2 * self.BASE)

    def _forked(self, place, rng, kind):
        """A fork that is there goes on; a place where one was begun and never finished is not used again."""
        for number in range(self.TRIES):
            name = f"{kind}-{number}"
            if not place.open(name).list(""):
                fork(place.url(), place.url(name), "kept", copy=kind == "copy")
            if place.open(name).contains(GENESIS_NAME):
                driver(place, rng, Keep.all(), name).go(self.AT + self.MORE, kind)
                return
        raise AssertionError("no place is left")

    def _names(self, place):
        return [path.name for path in sorted(place.folder.iterdir()) if path.name.startswith(("fork-", "copy-"))]

    def _check_forks(self, place):
        whole = 0
        for name in self._names(place):
            if name.endswith((".told", ".staged")):
                continue
            storage = place.open(name)
            if storage.contains(GENESIS_NAME):
                check_checkpoint(place, name, name.partition("-")[0], self.AT)
                whole += 1
            else:
                assert place.told(name) == 0
        return whole

    def check(self, place):
        check_checkpoint(place)
        self._check_forks(place)

    def check_end(self, place):
        self.check(place)
        base = place.open()
        assert self._check_forks(place) == (2 if forks(place.url()) else 1)
        assert self.AT in kept_epochs(base)[0]
        assert read_state(base, History(base).point(self.AT).manifest) == stored(models(self.AT)[self.AT])
        for held in savepoints(base):
            if held.fork:
                with contextlib.suppress(MillpondError):
                    forget_fork(base, held)
        named = {held.name for held in savepoints(base)}
        assert "kept" in named
        assert len(named) == (2 if forks(place.url()) else 1), "what a fork that died held is let go"
        check_tidy(place)


class Repairing:
    """A chunk of a snapshot is damaged and made again, and the checkpoint goes back by some epochs."""

    EPOCHS, TO = 13, 9

    def prepare(self, place):
        snapshots_before, snapshots.DELTA_EPOCHS_MAX = snapshots.DELTA_EPOCHS_MAX, 3
        Drawn(place.open(), Keep.all(), 2, lambda manifest: None).go(self.EPOCHS)
        snapshots.DELTA_EPOCHS_MAX = snapshots_before
        storage = place.open()
        name = History(storage).point(self.TO).manifest.snapshot[0].file.name
        good = storage.get(name)
        storage.delete(name)
        storage.put(name, good[:-1] + bytes([good[-1] ^ 1]))

    def go_on(self, place, rng):
        redraw(rng)
        if not place.told("repaired"):
            done = repair(place.open(), self.TO)
            assert done.healthy
            assert done.newest == self.TO
            place.tell("repaired", 1)
        driver(place, rng, some_keep(rng)).go(2 * self.EPOCHS)

    def check(self, place):
        storage = place.open()
        if place.told("repaired"):
            check_checkpoint(place)
        else:
            assert self.TO in repair(TrialStorage(storage), self.TO).whole
            for epoch in kept_epochs(storage)[0]:
                manifest = History(storage).point(epoch).manifest
                assert manifest.name == manifest_name(epoch)

    def check_end(self, place):
        assert check_checkpoint(place) == 2 * self.EPOCHS
        check_tidy(place)

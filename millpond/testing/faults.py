"""What goes wrong in a simulated run, as values: crashes, a disk that fails, stores that are lost.

>>> crash(at="committed", epoch=2)
Fault(kind='crash', epoch=2, sites=('point.manifest.committed',), nth=1, error=0, lasts=False)
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from millpond.errors import FeedError

Moment: TypeAlias = Literal["offered", "computed", "written", "committed", "published"]
"""How far an epoch has come: its rows are there; all tasks are done; their files are written; it is committed; its
replies are published.
"""

Call: TypeAlias = Literal["create", "write", "sync", "link", "unlink", "sync_folder", "read", "listdir"]
"""What the disk is asked to do."""

_POINTS: Final[dict[Moment, str]] = {
    "offered": "epoch.offered",
    "computed": "epoch.computed",
    "written": "segment.written",
    "committed": "manifest.committed",
    "published": "publish.finished",
}

LOCAL_STATE: Final = "local state.lost"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong once in an epoch: at the `nth` time that one of its sites is passed.

    One that `lasts` goes on until its process has ended. `error` is the number with which the disk tells it.
    """

    kind: str
    epoch: int
    sites: tuple[str, ...]
    nth: int = 1
    error: int = 0
    lasts: bool = False

    def __post_init__(self) -> None:
        if self.epoch < 1 or self.nth < 1:
            raise _no_such(self.kind, "epochs and calls are counted from 1", f"epoch={self.epoch}, nth={self.nth}")


def crash(at: Moment, epoch: int) -> Fault:
    """Let the process die when an epoch has come so far.

    >>> crash(at="computed", epoch=1).epoch
    1
    """
    if at not in get_args(Moment):
        raise _no_such("crash", ", ".join(get_args(Moment)), repr(at))
    return Fault("crash", epoch, (f"point.{_POINTS[at]}",))


def disk_full(epoch: int) -> Fault:
    """Let the disk of the checkpoint take nothing more in an epoch, until the run has failed of it and starts again.

    >>> disk_full(epoch=3).kind
    'disk_full'
    """
    sites = tuple(f"disk.{call}.fails" for call in ("create", "write", "mkdir"))
    return Fault("disk_full", epoch, sites, error=errno.ENOSPC, lasts=True)


def io_error(call: Call, epoch: int, nth: int = 1) -> Fault:
    """Let a call to the disk fail: the nth one of its kind in an epoch, or in the start before it.

    >>> io_error("sync", epoch=1, nth=2).sites
    ('disk.sync.fails',)
    """
    if call not in get_args(Call):
        raise _no_such("io_error", ", ".join(get_args(Call)), repr(call))
    return Fault("io_error", epoch, (f"disk.{call}.fails",), nth, errno.EIO)


def torn_write(epoch: int, nth: int = 1) -> Fault:
    """Let the process die in the middle of a write: half of the bytes are there.

    >>> torn_write(epoch=1).sites
    ('disk.write.takes half', 'disk.write.dies after')
    """
    return Fault("torn_write", epoch, ("disk.write.takes half", "disk.write.dies after"), nth)


def lost_local_state(epoch: int) -> Fault:
    """Let the machine of the workers be lost before an epoch: another one begins with the checkpoint alone.

    >>> lost_local_state(epoch=2).kind
    'lost_local_state'
    """
    return Fault("lost_local_state", epoch, (LOCAL_STATE,))


def random_faults(seed: int, count: int, *, epochs: int) -> list[Fault]:
    """Draw different faults of all kinds over some epochs; a seed always gives the same ones.

    >>> random_faults(7, 2, epochs=3) == random_faults(7, 2, epochs=3)
    True
    >>> len(random_faults(7, 6, epochs=1))
    6
    """
    chance = random.Random(seed)  # noqa: S311 - to be drawn again, not to be secret
    drawn = [fault for epoch in range(1, epochs + 1) for fault in _every(epoch, chance)]
    if not 0 <= count <= len(drawn):
        raise _no_such("random_faults", f"up to {len(drawn)} of {epochs} epoch(s)", str(count))
    return sorted(chance.sample(drawn, count), key=lambda fault: fault.epoch)


def _every(epoch: int, chance: random.Random) -> list[Fault]:
    """Return one fault of each kind; of those after the commit only one, since the epoch does not run again."""
    before: tuple[Moment, ...] = ("offered", "computed", "written")
    after: tuple[Moment, ...] = ("committed", "published")
    calls: tuple[Call, ...] = ("create", "write", "sync", "link")
    return [
        crash(chance.choice(before), epoch),
        crash(chance.choice(after), epoch),
        disk_full(epoch),
        io_error(chance.choice(calls), epoch),
        torn_write(epoch),
        lost_local_state(epoch),
    ]


def _no_such(what: str, expected: str, found: str) -> FeedError:
    return FeedError("MP586", f"there is no such fault: {what}", expected=expected, found=found)


class Planned:
    """Lets faults happen when and where they are planned, each once, and notes those that did."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = list(faults)
        for one in self._faults:
            if not isinstance(one, Fault):
                raise _no_such(repr(one)[:40], "what crash(...), disk_full(...) and others give", type(one).__name__)
        self._armed: list[Fault] = []
        self._passed: Counter[str] = Counter()
        self._error = self._before = 0
        self.happened: list[Fault] = []

    @property
    def left(self) -> list[Fault]:
        """The faults that have not happened yet."""
        return list((Counter(self._faults) - Counter(self.happened)).elements())

    def begin(self, epoch: int | None) -> None:
        """Begin a try at an epoch, in which faults happen that are left for it; sites are counted again."""
        self._armed = [fault for fault in self.left if fault.epoch == epoch]
        self._before = len(self.happened)
        self._passed.clear()

    @property
    def striking(self) -> list[Fault]:
        """The faults that have happened in this try."""
        return self.happened[self._before :]

    def fires(self, site: str, rarity: int = 1) -> bool:  # noqa: ARG002 - planned is not by chance
        """Return whether a fault happens at a site that is passed now."""
        self._passed[site] += 1
        for fault in self._armed:
            number = self._passed[site]
            if site in fault.sites and (number == fault.nth or (fault.lasts and number > fault.nth)):
                if fault not in self.striking:
                    self.happened.append(fault)
                self._error = fault.error
                return True
        return False

    def one(self, choices: tuple[int, ...]) -> int:  # noqa: ARG002 - a planned fault knows its error
        """Return the error of the fault that happens now."""
        return self._error

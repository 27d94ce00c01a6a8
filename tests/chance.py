"""Where tests take chance from: a seed that is fixed, so that every run of all tests is the same one.

Only campaigns (`make crash`) give another one, as MILLPOND_TEST_SEED; they print it, and it can be given again. What a
test draws follows from the seed and the test's own name, never from its neighbours, the process or the clock.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

SEED = os.environ.get("MILLPOND_TEST_SEED", "")
"""Of the whole run; empty for the fixed one."""


def seed_of(name: str) -> int:
    """The seed of a test, a fixture, or anything else with a name."""
    return zlib.crc32(f"{SEED} {name}".encode() if SEED else name.encode())


class Uuids:
    """What UUIDs are made of follows from the test's name: this stands for `os` in Python's own module of UUIDs.

    The function `uuid.uuid4` stays what it is, since the compiler must know it when it meets it. A forked child has a
    sequence of its own: two writers of one folder must never meet under one name.
    """

    def __init__(self) -> None:
        self.begin("")
        os.register_at_fork(before=self._fork, after_in_child=self._forked)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def urandom(self, size: int) -> bytes:
        """Bytes for the next UUID."""
        word = f"{SEED} {self._name} {next(self._drawn)}"
        return hashlib.sha256(word.encode()).digest()[:size]

    def begin(self, name: str) -> None:
        """Start the sequence of a name."""
        self._name, self._drawn, self._forks = name, itertools.count(), 0

    @contextmanager
    def apart(self, name: str) -> Iterator[None]:
        """Take another sequence for a while."""
        before = self._name, self._drawn, self._forks
        self.begin(name)
        yield
        self._name, self._drawn, self._forks = before

    def _fork(self) -> None:
        self._forks += 1

    def _forked(self) -> None:
        self.begin(f"{self._name} child {self._forks}")


class Chance:
    """The sources of chance of a test process, set anew for each test."""

    def __init__(self) -> None:
        self._uuids = Uuids()
        vars(uuid)["os"] = self._uuids

    def begin(self, name: str) -> None:
        """Set all sources for a test."""
        self._uuids.begin(name)
        random.seed(seed_of(name))
        np.random.seed(seed_of(name))  # noqa: NPY002 - whoever draws from it must find the same numbers

    @contextmanager
    def apart(self, name: str) -> Iterator[None]:
        """What several tests share is made from a seed of its own, whichever of them comes first."""
        numbers, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002
        with self._uuids.apart(name):
            random.seed(seed_of(name))
            np.random.seed(seed_of(name))  # noqa: NPY002
            yield
        random.setstate(numbers)
        np.random.set_state(arrays)  # noqa: NPY002

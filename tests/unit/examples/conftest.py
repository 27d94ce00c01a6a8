"""A stand-in for a Spark session where an example only starts and stops it."""

from __future__ import annotations

import pytest


class StoppedSpark:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def stopped_spark() -> StoppedSpark:
    return StoppedSpark()

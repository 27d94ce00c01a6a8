"""A job in this process, and what follows it."""

from __future__ import annotations

import pytest

from millpond.engine.simulated import Simulated
from tests.programs.served import Shop
from tests.sizes import compile_once


@pytest.fixture
def job(tmp_path):
    return Simulated(compile_once(Shop), tmp_path, partitions=2)


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"

"""What time, timers, windows and event time do to programs is the same if epochs are cut around rows of a feed."""

from __future__ import annotations

import pytest

from millpond.engine.sequence import ways
from tests.property import test_eventtime, test_time, test_windows_late

pytestmark = pytest.mark.slow

fresh = test_time.fresh


@pytest.fixture(autouse=True)
def _cut_around_rows_of_the_first_feed(monkeypatch):
    monkeypatch.setattr(ways, "sequence_feeds", lambda plan: [0])
    monkeypatch.setattr(ways, "CUT_ROWS_MAX", 20)


for suite in (test_time, test_eventtime, test_windows_late):
    globals().update({name: one for name, one in vars(suite).items() if name.startswith("test_")})

"""For tests of your own programs in plain Python: moments of your choice.

`epoch_time` sets what `self.now` says, `event_time` what it says in one row of a feed with event time, and
`fire_timers` calls the handlers of timers and windows that are due.
"""

from __future__ import annotations

from millpond.program.semantics.epoch_time import epoch_time, event_time
from millpond.program.timers import Fired, fire_timers

__all__ = ["Fired", "epoch_time", "event_time", "fire_timers"]

"""A campaign against the compiler: random programs, run as plain Python and as compiled graphs, and compared.

`python -m millpond.testing.programs --count N --seed S` runs it from the terminal. `grammar.generate` makes a program
from a seed, `rows.random_rows` makes rows for it, `compare.compare` runs it both ways, `shrink.shrink` makes a failure
small, and `campaign.run` does all of it many times.

For tests of your own programs: `epoch_time` sets what `self.now` says in plain Python, `event_time` what it says in one
row of a feed with event time, `fire_timers` calls the handlers of timers that are due.
"""

from __future__ import annotations

from millpond.program.epoch_time import epoch_time, event_time
from millpond.program.timers import Fired, fire_timers

__all__ = ["Fired", "epoch_time", "event_time", "fire_timers"]

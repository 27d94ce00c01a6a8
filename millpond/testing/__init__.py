"""A campaign against the compiler: random programs, run as plain Python and as compiled graphs, and compared.

`python -m millpond.testing.programs --count N --seed S` runs it from the terminal. `grammar.generate` makes a program
from a seed, `rows.random_rows` makes rows for it, `compare.compare` runs it both ways, `shrink.shrink` makes a failure
small, and `campaign.run` does all of it many times.
"""

from __future__ import annotations

"""A campaign against the compiler: random programs, run as plain Python and as compiled graphs, and compared.

`python -m millpond.testing.programs --count N --seed S` runs it from the terminal.
"""

from __future__ import annotations

from millpond.testing.compare import Outcome, Verdict, compare
from millpond.testing.grammar import Generated, Knobs, generate
from millpond.testing.rows import random_rows
from millpond.testing.shrink import Case, shrink

__all__ = ["Case", "Generated", "Knobs", "Outcome", "Verdict", "compare", "generate", "random_rows", "shrink"]

"""What sharing is measured against: naive, panes, pairs, pairs+, and a tree of records (RA). Not for use.

The trees of pairs+ and RA are those of the papers, without the savings of our store. All count as `SharedWindows` does.
Where the technique is only another rule for cutting slices, it is only that.
"""

from __future__ import annotations

from benchmarks.baselines.cuttings import pairs, pairs_plus, panes, reactive
from benchmarks.baselines.naive import Naive

__all__ = ["Naive", "pairs", "pairs_plus", "panes", "reactive"]

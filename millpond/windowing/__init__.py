"""Windows that share their work: descriptions, aggregates, slices. No Spark, no storage.

`SharedWindows` takes records one by one, in order, for any kinds of windows; `vectorised` takes columns, in any order,
for windows over time. docs/WINDOWS.md says which to use.
"""

from __future__ import annotations

from millpond.windowing.aggregates import Aggregate, aggregate, several
from millpond.windowing.counters import Counters
from millpond.windowing.driven import landmark, punctuation, session, varying
from millpond.windowing.element import ClosedWindow
from millpond.windowing.gathering import collect, top_k
from millpond.windowing.kinds import Moment, Window
from millpond.windowing.periodic import (
    count_sliding,
    count_tumbling,
    days,
    measured,
    months,
    sliding,
    tumbling,
    weeks,
)
from millpond.windowing.plain import (
    argmax,
    argmin,
    count,
    first_of,
    last_of,
    max_of,
    mean_of,
    min_of,
    sum_of,
    variance_of,
)
from millpond.windowing.shared import Result, SharedWindows, exported_type
from millpond.windowing.sketches import distinct_count, quantiles_of
from millpond.windowing.userdefined import last_every, user_defined, viewed

__all__ = [
    "Aggregate",
    "ClosedWindow",
    "Counters",
    "Moment",
    "Result",
    "SharedWindows",
    "Window",
    "aggregate",
    "argmax",
    "argmin",
    "collect",
    "count",
    "count_sliding",
    "count_tumbling",
    "days",
    "distinct_count",
    "exported_type",
    "first_of",
    "landmark",
    "last_every",
    "last_of",
    "max_of",
    "mean_of",
    "measured",
    "min_of",
    "months",
    "punctuation",
    "quantiles_of",
    "session",
    "several",
    "sliding",
    "sum_of",
    "top_k",
    "tumbling",
    "user_defined",
    "variance_of",
    "varying",
    "viewed",
    "weeks",
]

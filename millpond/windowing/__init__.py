"""Windows that share their work: descriptions, aggregates, slices. No Spark, no storage.

`SharedWindows` takes records one by one, in order, for any kinds of windows; `vectorised` takes columns, in any order,
for windows over time. docs/WINDOWS.md says which to use.

In reading order: `kinds/`, `aggregates/`, `stores/`, `discretiser`, `shared`, `keyed/`, `element`, `columns/`, `joins`.
"""

from __future__ import annotations

from millpond.windowing.aggregates.aggregates import Aggregate, aggregate, several
from millpond.windowing.aggregates.extremes import max_of, min_of
from millpond.windowing.aggregates.gathering import collect, top_k
from millpond.windowing.aggregates.picks import argmax, argmin, first_of, last_of
from millpond.windowing.aggregates.sketches import distinct_count, quantiles_of
from millpond.windowing.aggregates.sums import count, mean_of, sum_of
from millpond.windowing.aggregates.variances import variance_of
from millpond.windowing.element import ClosedWindow
from millpond.windowing.kinds.driven import landmark, punctuation, session, varying
from millpond.windowing.kinds.kinds import Moment, Window
from millpond.windowing.kinds.periodic import (
    count_sliding,
    count_tumbling,
    days,
    measured,
    months,
    sliding,
    tumbling,
    weeks,
)
from millpond.windowing.kinds.userdefined import last_every, user_defined, viewed
from millpond.windowing.shared import Result, SharedWindows, exported_type
from millpond.windowing.stores.counters import Counters

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

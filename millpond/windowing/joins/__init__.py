"""Joins of two streams over event time, on whole columns: by an interval, or by a common window. No Spark, no storage.

Rows of both sides come in any order. A watermark says up to where no more are expected: then left rows that found no
partner are emitted, and rows that can find none are let go. docs/WINDOWS.md, Joins.

In reading order: `interval`, `windowed`, `sides`, `bykey`, `results`.
"""

from __future__ import annotations

from millpond.windowing.joins.interval import IntervalJoin
from millpond.windowing.joins.results import Joined
from millpond.windowing.joins.windowed import WindowJoin

__all__ = ["IntervalJoin", "Joined", "WindowJoin"]

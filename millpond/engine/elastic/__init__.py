"""Elastic jobs: what epochs cost, and who shall own which key groups because of it. No Spark, no storage.

Policies are pure: they are told of epochs (`Observed`) and answer with owners (`Decision`). docs/ELASTIC.md says how a
job is given one.

In reading order: `options`, `observed`, `detect`, `standard`, `balance`, `latency`,
`speeds`, `loadmetrics`, `rebalancer`.
"""

from __future__ import annotations

from millpond.engine.elastic.detect import Consecutive, Detector
from millpond.engine.elastic.latency import Latency
from millpond.engine.elastic.observed import Decision, HotKey, Observed, Policy, Reason, TaskLoad
from millpond.engine.elastic.options import Elastic
from millpond.engine.elastic.standard import Standard

__all__ = [
    "Consecutive",
    "Decision",
    "Detector",
    "Elastic",
    "HotKey",
    "Latency",
    "Observed",
    "Policy",
    "Reason",
    "Standard",
    "TaskLoad",
]

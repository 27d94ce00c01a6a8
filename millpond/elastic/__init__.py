"""Elastic jobs: what epochs cost, and who shall own which key groups because of it. No Spark, no storage.

Policies are pure: they are told of epochs (`Observed`) and answer with owners (`Decision`). docs/ELASTIC.md says how a
job is given one.
"""

from __future__ import annotations

from millpond.elastic.detect import Consecutive, Detector
from millpond.elastic.latency import Latency
from millpond.elastic.observed import Decision, HotKey, Observed, Policy, Reason, TaskLoad
from millpond.elastic.options import Elastic
from millpond.elastic.standard import Standard

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

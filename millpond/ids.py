"""Identifiers as types, so that an epoch is never passed where a partition is wanted.

>>> epoch, partition = EpochId(7), PartitionId(7)
>>> epoch == partition  # numbers at run time: only the type checker tells them apart
True
"""

from __future__ import annotations

from typing import NewType

EpochId = NewType("EpochId", int)
"""The number of a committed cut of the input; 0 is the empty start of a checkpoint."""

PartitionId = NewType("PartitionId", int)
"""Which task of a step; owns a range of key groups."""

KeyGroup = NewType("KeyGroup", int)
"""A bucket of keys, 0 to K-1; the unit that moves between partitions."""

InstanceId = NewType("InstanceId", int)
"""One of the M logical instances of a partial state element."""

ManifestHash = NewType("ManifestHash", str)
"""SHA-256 of a manifest's bytes, in hex; names a point of one timeline."""

"""What users write: state declarations, entry points, global access and merging; runs as plain Python by itself.

In reading order: `declare`, `entries`, `globals`, `merges`, `timers`, `windows`, `durability`,
`evolution`, `feeding`, `columntypes`, `places`, `program`, `settings`, `semantics/`.
"""

from __future__ import annotations

from millpond.program.declare import Distribution, Element, Partial, Partitioned
from millpond.program.entries import EntryPoint, entry
from millpond.program.globals import Collected, each, merged
from millpond.program.program import ProgramBase

__all__ = [
    "Collected",
    "Distribution",
    "Element",
    "EntryPoint",
    "Partial",
    "Partitioned",
    "ProgramBase",
    "each",
    "entry",
    "merged",
]

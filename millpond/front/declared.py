"""The declaration of an element that a checkpoint tells of, for whoever merges its instances."""

from __future__ import annotations

import copy
from typing import Any, get_args

from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.read.typed import TypedReader
from millpond.program.declare import Distribution, Element, Merge
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector

_CONTAINERS: dict[str, Any] = {kind.kind: kind for kind in (Map, Counter, Vector, Set, List, Matrix, Value)}


def element_of(reader: ElementReader, merge: Merge) -> Element:
    """Return the element that a reader reads, merged by a function: as declared, or as far as the checkpoint says."""
    if isinstance(reader, TypedReader):
        element = copy.copy(reader.element)
    else:
        by = reader.schema.by or None
        element = Element(_declared(reader), Distribution.PARTIAL, by)
        element.name = reader.schema.name
    element.merge = merge
    return element


def _declared(reader: ElementReader) -> Any:
    key, value, kind = reader.key_type.hint, reader.value_type.hint, reader.schema.kind
    if kind == "map":
        return _CONTAINERS[kind][key, value]
    if kind == "matrix":
        across, cell = get_args(value)
        return _CONTAINERS[kind][(key, across, cell) if reader.schema.by == "row" else (across, key, cell)]
    return _CONTAINERS[kind][value if kind in ("value", "list") else key]

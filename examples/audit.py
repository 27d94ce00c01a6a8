"""A second pair of eyes: reads a checkpoint alone, and tells what held at each epoch that it keeps.

It knows the declared types of the state, and nothing of the compiler, the runtime or the rows. So it sees what a run
committed, not what it says of itself.

    for epoch, total in measured(storage, Bank.elements(), lambda state: sum(state["balances"].values())).items(): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from millpond.checkpoint.records.manifest import MANIFESTS, Manifest, decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.program import Element
from millpond.state.local.storekey import element_of, unit_of
from millpond.storage.contract import Storage

T = TypeVar("T")

State = dict[str, dict[Any, Any]]
"""The entries of each element, by its name."""


def kept_manifests(storage: Storage) -> Iterator[Manifest]:
    """The manifests that a checkpoint keeps, the oldest first; each is a committed epoch."""
    for name in sorted(storage.list(MANIFESTS)):
        yield decode_manifest(storage.get(name), name)


def states(storage: Storage, elements: Mapping[str, Element]) -> Iterator[tuple[int, State]]:
    """The whole state at each kept epoch, decoded; for partitioned elements."""
    kinds = [(name, element.type) for name, element in elements.items()]
    for manifest in kept_manifests(storage):
        state: State = {name: {} for name in elements}
        for key, value in read_state(storage, manifest).items():
            name, kind = kinds[element_of(key)]
            state[name][kind.keys.decode(unit_of(key))] = kind.values.decode(value)
        yield manifest.epoch, state


def measured(
    storage: Storage, elements: Mapping[str, Element], measure: Callable[[State], T], *, since: int = 1
) -> dict[int, T]:
    """What a measure of the state says at each kept epoch, from one on."""
    return {epoch: measure(state) for epoch, state in states(storage, elements) if epoch >= since}


def constant(values: Mapping[int, T]) -> bool:
    """Whether a measure was the same at all epochs; False if there is none to look at."""
    found = list(values.values())
    return bool(found) and all(value == found[0] for value in found)

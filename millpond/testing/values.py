"""State as plain values: what a plain program holds, and what a checkpoint holds of the same elements.

>>> from millpond.program import Partitioned, ProgramBase
>>> from millpond.state.containers.counter import Counter
>>> class Words(ProgramBase):
...     counts = Partitioned(Counter[str])
>>> words = Words()
>>> words.counts["mill"] += 1
>>> plain_state(words)
{'counts': {'mill': 1}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.ids import InstanceId
from millpond.keygroups import Layout
from millpond.program import Element, ProgramBase
from millpond.program.semantics.epoch_time import moment_of
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.local.storekey import element_of, group_of, unit_of
from millpond.state.timers import LAST_US, Timers
from millpond.storage.contract import Storage
from millpond.windowing.element import Windows, WindowsType


def value_of(container: Any) -> Any:
    """Return what a container holds as a dict, a list, a set or, of a `Value`, what was set; None if nothing.

    Cells of a matrix are by row and column, timers by key.
    """
    if isinstance(container, Value):
        return container.get(None)
    if isinstance(container, Timers):
        return {key: moment_of(at) for at, key in container.due(LAST_US)}
    if isinstance(container, List):
        return list(container)
    if isinstance(container, Set):
        return set(container)
    return dict(container.items())


def plain_state(program: ProgramBase) -> dict[str, Any]:
    """Return the state of a plain program by element, at its time; windows are left out: they show when emitted.

    Of partial elements there is one instance.
    """
    held = {name: vars(program)[name] for name in program.elements()}
    return {name: value_of(one) for name, one in held.items() if not isinstance(one, Windows)}


def committed_state(
    storage: Storage, layout: Layout, elements: Mapping[str, Element], stored: Sequence[str]
) -> dict[str, Any]:
    """Return the state that the files of a checkpoint hold, by element; of partial ones a list of all instances.

    `stored` are the names of elements in the order of their numbers there.
    """
    genesis = read_genesis(storage)
    assert genesis is not None
    head = last_manifest(storage, genesis[1])
    over = {} if head is None else head[0].times.over_us
    held = {key: value for key, value in read_state(storage).items() if not is_over(key, value, over)}
    state: dict[str, Any] = {}
    for name, element in elements.items():
        own = [item for item in held.items() if element_of(item[0]) == stored.index(name)]
        if element.partial:
            homes = [layout.home_of(InstanceId(number)) for number in range(layout.instances)]
            state[name] = [_decoded(element, (i for i in own if group_of(i[0]) == home)) for home in homes]
        elif not isinstance(element.type, WindowsType):
            state[name] = _decoded(element, own)
    return state


def _decoded(element: Element, entries: Iterable[tuple[bytes, bytes]]) -> Any:
    kind = element.stored()[element.name].type
    found: Map[Any, Any] = Map()
    for key, data in entries:
        value = kind.values.decode(data)
        # Beside what expires stands when it was written.
        found[kind.keys.decode(unit_of(key))] = value if element.ttl is None else value[1]
    return value_of(element.type.wrap(found))

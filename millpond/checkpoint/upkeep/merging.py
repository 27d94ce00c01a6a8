"""Several instances of a partial element made into one, by the program's own function.

The function is asked what `merged` would ask it: a list of what the instances hold, in their order. For maps, counters,
vectors and matrices that is entry by entry, with what reading says where an instance holds nothing: 0 in counters,
vectors and matrices, None in maps and values. Sets and lists are merged as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import merge as merge_sorted
from itertools import groupby
from operator import itemgetter
from typing import Any

from millpond.errors import EpochError, MillpondError
from millpond.program.declare import Element
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.vector import Vector

Entry = tuple[bytes, bytes]
"""A unit and its value, as bytes."""

_MISSING: dict[type, Any] = {Counter: 0, Vector: 0.0}
"""What reading says where there is no entry; None elsewhere."""


def merge_instances(element: Element, instances: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    """Yield the entries of the instance that several become, in order."""
    if element.type.container is Set:
        return _merged_sets(element, instances)
    if element.type.container is List:
        return _merged_lists(element, instances)
    return _merged_entries(element, instances)


def _merged_entries(element: Element, instances: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    decode, encode = element.type.values.decode, element.type.values.encode
    one_value = _merged_line if element.type.container is Matrix else _merged_value
    numbered = [_numbered(number, entries) for number, entries in enumerate(instances)]
    for unit, group in groupby(merge_sorted(*numbered), key=itemgetter(0)):
        held = {number: decode(value) for _, number, value in group}
        key = element.type.keys.decode(unit)
        merged = one_value(element, key, held, len(instances))
        yield unit, _fitting(element, key, merged, encode)


def _numbered(number: int, entries: Iterator[Entry]) -> Iterator[tuple[bytes, int, bytes]]:
    return ((unit, number, value) for unit, value in entries)


def _merged_value(element: Element, key: Any, held: dict[int, Any], count: int) -> Any:
    missing = _MISSING.get(element.type.container)
    return _asked(element, key, [held.get(number, missing) for number in range(count)])


def _merged_line(element: Element, key: Any, held: dict[int, dict[Any, Any]], count: int) -> dict[Any, Any]:
    """Return a line of a matrix, cell by cell."""
    zero = element.type.arguments[2]()
    places = sorted({place for cells in held.values() for place in cells})
    by_row = element.type.by == "row"
    return {
        place: _asked(
            element,
            (key, place) if by_row else (place, key),
            [held.get(number, {}).get(place, zero) for number in range(count)],
        )
        for place in places
    }


def _merged_sets(element: Element, instances: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    codec = element.type.keys
    nothing = element.type.values.encode(None)
    held = [element.type.wrap(Map((codec.decode(unit), None) for unit, _ in entries)) for entries in instances]
    merged = _asked(element, None, held)
    if not isinstance(merged, AbstractSet):
        raise _misfit(element, None, f"a set of {type_text(codec.hint)}", shown(merged))
    units = _fitting(element, None, list(merged), codec.encode_many)
    return ((unit, nothing) for unit in sorted(set(units)))


def _merged_lists(element: Element, instances: Sequence[Iterator[Entry]]) -> Iterator[Entry]:
    codec = element.type.values
    merged = _asked(element, None, [codec.decode_many([value for _, value in entries]) for entries in instances])
    if not isinstance(merged, list):
        raise _misfit(element, None, f"a list of {type_text(codec.hint)}", shown(merged))
    units = element.type.keys.encode_many(range(len(merged)))
    return iter(list(zip(units, _fitting(element, None, merged, codec.encode_many), strict=True)))


def _asked(element: Element, key: Any, answers: list[Any]) -> Any:
    assert element.merge is not None, element.name
    try:
        return element.merge(answers)
    except Exception as error:
        found = f"{type(error).__name__}: {str(error)[:200]}"
        raise _misfit(element, key, "one value", f"{found}, given {shown(answers)}") from error


def _fitting(element: Element, key: Any, merged: Any, encode: Callable[[Any], Any]) -> Any:
    try:
        return encode(merged)
    except MillpondError as error:
        raise _misfit(element, key, error.expected or "a value of the declared type", error.found or "") from error


def _misfit(element: Element, key: Any, expected: str, found: str) -> EpochError:
    at = "" if key is None or key == () else f" for {shown(key)}"
    return EpochError(
        "MP421",
        f"the merge of `{element.name}` failed{at}",
        expected=expected,
        found=found,
        hint="nothing was committed; an entry that an instance does not have is None in a map, which the functions of "
        "millpond.merges accept",
    )

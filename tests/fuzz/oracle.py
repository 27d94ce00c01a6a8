"""What plain Python makes of rows: the replies, the rows that raise, and the state that is left."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.compiler.analysis.mutability import is_frozen
from millpond.engine.arrowtypes import to_arrow
from millpond.errors import Aborted, MillpondError
from millpond.keygroups import Layout
from millpond.program import Element, EntryPoint, ProgramBase
from millpond.state.containers.element import THE_KEY
from millpond.state.local.storekey import element_of, group_of, store_key, unit_of
from tests.fuzz.rows import Row

State = dict[str, dict[str, str]]
"""By element, its entries as text: the key (with its group where it has one) and the value."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The rows that a program can run in their order, with their replies, and those that it can't.

    `raises` has rows of the user's own exceptions, and `unfit` those whose values no checkpoint or column could hold.
    """

    rows: list[Row]
    replies: dict[int, str]
    raises: list[Row]
    unfit: int


def expect(program: type[ProgramBase], rows: Sequence[Row]) -> Expected:
    """Run rows as plain Python; a row that fails is taken out, as if it had never been there."""
    left, raises, unfit = list(rows), [], 0
    points = program.entries()
    while True:
        plain, replies = program(), {}
        for number, row in enumerate(left):
            try:
                reply = call(plain, points, row)
                _check_fits(plain)
                if reply is not None:
                    replies[number] = reply
            except (MillpondError, UnfitError):
                unfit += 1
                break
            except Exception:  # noqa: BLE001
                raises.append(row)
                break
        else:
            return Expected(left, replies, raises, unfit)
        left.pop(number)


def _check_fits(plain: ProgramBase) -> None:
    """Refuse values that were changed in place into something that no checkpoint could hold."""
    for name, element in plain.elements().items():
        if not is_frozen(element.type.value_hint):
            for value in _entries(vars(plain)[name]).values():
                element.type.values.check(value)


class UnfitError(Exception):
    """A reply is not of its declared type, or does not fit into a column."""


def call(plain: ProgramBase, points: Mapping[str, EntryPoint], row: Row) -> str | None:
    """Run one row; its reply as a sink shows it, as text, or None if the entry point gives none.

    The method is called as a user calls it, with arguments of its own: it may ask for random numbers, which follow from
    the arguments, and may change these. A row that the program refuses has its reason for a reply.
    """
    name, arguments = row
    point = points[name]
    try:
        value = getattr(plain, name)(*copy.deepcopy(arguments))
    except Aborted as refused:
        return refusal(refused.reason)
    return shown(value, point.returns) if point.replies else None


def refusal(reason: str) -> str:
    """What stands for the reply of a row that its program refused."""
    return f"aborted: {reason!r}"


def shown(value: Any, hint: Any) -> str:
    """A reply as the rows of a sink hold it, as text: types and signs of zero can be told apart."""
    try:
        return repr(to_arrow([value], hint).to_pylist()[0])
    except Exception as error:
        raise UnfitError(str(error)) from error


def plain_state(program: ProgramBase, layout: Layout) -> State:
    """The state of a plain instance."""
    state: State = {}
    for name, element in program.elements().items():
        entries = _entries(vars(program)[name])
        if element.partial:
            state[name] = _merged(name, [entries])
            continue
        state[name] = {
            f"{int(layout.group_of(THE_KEY if element.type.single else unit))}:{unit!r}": repr(value)
            for unit, value in entries.items()
        }
    return state


def _entries(container: Any) -> dict[Any, Any]:
    inner = next(
        (held for part in ("_entries", "_lines") if (held := getattr(container, part, None)) is not None), None
    )
    held = container if inner is None else inner
    return dict(dict.items(held))


def committed_state(elements: Mapping[str, Element], held: Mapping[bytes, bytes]) -> State:
    """The state that a checkpoint holds, instances of partial elements merged."""
    state: State = {}
    for index, (name, element) in enumerate(elements.items()):
        own = {key: value for key, value in held.items() if element_of(key) == index}
        if element.partial:
            instances = [dict(_decoded(element, own, group)) for group in sorted({group_of(key) for key in own})]
            state[name] = _merged(name, instances)
        else:
            state[name] = {
                f"{group_of(key)}:{element.type.keys.decode(unit_of(key))!r}": repr(element.type.values.decode(value))
                for key, value in own.items()
            }
        _check_bytes(index, element, own)
    return state


def _decoded(element: Element, held: Mapping[bytes, bytes], group: int) -> Iterator[tuple[Any, Any]]:
    for key, value in held.items():
        if group_of(key) == group:
            yield element.type.keys.decode(unit_of(key)), element.type.values.decode(value)


def _check_bytes(index: int, element: Element, held: Mapping[bytes, bytes]) -> None:
    """Equal values must have equal bytes, or a digest of the state would tell histories apart."""
    for key, value in held.items():
        unit = element.type.keys.decode(unit_of(key))
        assert store_key(index, group_of(key), element.type.keys.encode(unit)) == key
        assert element.type.values.encode(element.type.values.decode(value)) == value


def _merged(name: str, instances: Sequence[Mapping[Any, Any]]) -> dict[str, str]:
    """One view of all instances. The beginning of the element's name says how they are merged."""
    merge = max if name.startswith("max") else sum
    gathered: dict[Any, list[Any]] = {}
    for instance in instances:
        for unit, value in instance.items():
            if isinstance(value, dict):
                for at, cell in value.items():
                    gathered.setdefault((unit, at), []).append(cell)
            else:
                gathered.setdefault(unit, []).append(value)
    return {repr(unit): repr(merge(values)) for unit, values in gathered.items()}

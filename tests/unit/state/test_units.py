"""Distinct keys in the order of the store."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import EpochError, StateError
from millpond.keygroups import INT_MAX, INT_MIN, Layout
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.containers.element import ElementType
from millpond.state.containers.map import Map
from millpond.state.local.storekey import store_key
from millpond.state.overlay import DictBase, KeyedOverlay
from millpond.state.units import in_store_order

ELEMENT = 3
KEYS = {
    int: st.integers(INT_MIN, INT_MAX),
    str: st.text(st.characters(exclude_categories=("Cs",))),
    bytes: st.binary(),
    datetime.date: st.dates(),
    tuple[int, str]: st.tuples(st.integers(INT_MIN, INT_MAX), st.text(st.characters(exclude_categories=("Cs",)))),
}


@given(st.data(), st.sampled_from(list(KEYS)), st.sampled_from([1, 7, 128, 32_768]))
def test_units_come_in_the_order_of_their_store_keys(data, hint, key_groups):
    units = data.draw(st.lists(KEYS[hint], unique=True))
    codec = KeyCodec(hint)
    layout = Layout(key_groups, 1, 1, aligned=False)
    wanted = {store_key(ELEMENT, layout.group_of(unit), codec.encode(unit)): unit for unit in units}
    placed = in_store_order(ELEMENT, codec, units, key_groups)
    assert placed.keys == sorted(wanted)
    assert [units[at] for at in placed.order] == [wanted[key] for key in sorted(wanted)]
    assert [placed.order[rank] for rank in placed.ranks()] == list(range(len(units)))
    assert placed.groups.tolist() == [layout.group_of(unit) for unit in units]


def test_a_key_of_another_type_or_size_is_refused():
    with pytest.raises(StateError, match="MP207"):
        in_store_order(ELEMENT, KeyCodec(int), [1, True], 128)
    with pytest.raises(StateError, match="MP201"):
        in_store_order(ELEMENT, KeyCodec(int), [1, 2**63], 128)


def test_a_key_of_another_partition_is_refused():
    layout = Layout(128, 2, 8, aligned=False)
    overlay = KeyedOverlay(ElementType.parse(Map[int, int], None), ELEMENT, DictBase(), 128, layout.groups_of(0))
    here = [key for key in range(100) if layout.owner_of(layout.group_of(key)) == 0]
    overlay.prefetch(here)
    with pytest.raises(EpochError, match="MP432"):
        overlay.prefetch(range(100))

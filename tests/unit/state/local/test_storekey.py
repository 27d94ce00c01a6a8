from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.state.local.storekey import element_of, elements_in, group_of, group_span, spans_within, store_key

keys = st.lists(
    st.builds(store_key, st.sampled_from([0, 1, 7, 254, 255]), st.integers(0, 40), st.binary(max_size=2)),
    max_size=40,
    unique=True,
).map(sorted)


@given(keys)
def test_the_span_of_groups_is_that_of_all_keys(found):
    groups = [group_of(key) for key in found] or [0]
    assert group_span(found) == (min(groups), max(groups))


@given(keys)
def test_the_elements_divide_all_keys(found):
    parts = list(elements_in(found))
    assert [found[at] for _, start, end in parts for at in range(start, end)] == found
    assert [element for element, _, _ in parts] == sorted({element_of(key) for key in found})
    assert all(element_of(found[at]) == element for element, start, end in parts for at in range(start, end))


@given(keys, st.integers(0, 40), st.integers(0, 40))
def test_a_range_of_groups_is_found_in_every_element(found, first, width):
    spans = list(spans_within(found, first, first + width))
    held = [found[at] for start, end in spans for at in range(start, end)]
    assert held == [key for key in found if first <= group_of(key) <= first + width]
    assert all(start < end for start, end in spans)

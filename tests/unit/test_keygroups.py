from __future__ import annotations

import datetime
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import ElasticError, StateError
from millpond.keygroups import INT_MAX, INT_MIN, KEY_GROUPS_MAX, PRIME, Layout, hash_int, hash_ints, stable_hash

INTS = st.integers(INT_MIN, INT_MAX)
TEXT = st.text(st.characters(exclude_categories=("Cs",)))
PARTS = INTS | TEXT | st.binary() | st.booleans() | st.dates()
KEYS = PARTS | st.lists(PARTS, max_size=4).map(tuple)


@st.composite
def layouts(draw):
    groups = draw(st.integers(1, 200))
    return Layout(groups, draw(st.integers(1, groups)), draw(st.integers(1, groups)), draw(st.booleans()))


@given(st.lists(INTS))
def test_the_vectorised_hash_of_integers_is_the_scalar_one(values):
    assert hash_ints(np.array(values, dtype=np.int64)).tolist() == [hash_int(value) for value in values]


@pytest.mark.parametrize("value", [INT_MIN, -(2**32), -1, 0, 1, 2**31 - 1, 2**32 - 1, 2**32, INT_MAX])
def test_the_edges_of_64_bits_hash_alike_in_both(value):
    assert hash_ints(np.array([value])).tolist() == [hash_int(value)]


@given(KEYS)
def test_a_hash_fits_into_31_bits(key):
    assert 0 <= stable_hash(key) < PRIME


@pytest.mark.parametrize(
    ("key", "known"),
    [
        (0, 987_654_323),
        (1, 2_061_394_762),
        (-1, 920_544_076),
        (INT_MIN, 1_994_287_284),
        (INT_MAX, 2_061_394_762),
        ("", 987_654_323),
        ("mill", 884_533_214),
        (b"mill", 884_533_214),
        (True, 2_061_394_762),
        (datetime.date(1970, 1, 2), 2_061_394_762),
        ((), 0),
        ((1, "a"), 1_611_515_911),
    ],
)
def test_hashes_are_frozen_for_the_life_of_all_checkpoints(key, known):
    assert stable_hash(key) == known


def test_the_hash_does_not_depend_on_pythons_hash_seed():
    code = "from millpond.keygroups import stable_hash; print(stable_hash(('mill', b'pond', 7)))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (2**63, "MP201"),
        (INT_MIN - 1, "MP201"),
        ((1, 2**63), "MP201"),
        (1.0, "MP202"),
        (None, "MP202"),
        ([1], "MP202"),
        (np.int64(1), "MP202"),
        (datetime.time(1), "MP202"),
        ("\ud800", "MP203"),
    ],
)
def test_what_can_not_be_a_key_is_refused(key, code):
    with pytest.raises(StateError) as caught:
        stable_hash(key)
    assert caught.value.code == code


@given(layouts())
def test_every_group_is_owned_by_exactly_one_partition(layout):
    owned = [group for partition in range(layout.partitions) for group in layout.groups_of(partition)]
    assert owned == list(range(layout.key_groups))


@given(layouts())
def test_owners_and_ranges_agree(layout):
    for group, owner in enumerate(layout.owners()):
        assert owner == layout.owner_of(group)
        assert group in layout.groups_of(owner)


@given(layouts())
def test_an_aligned_instance_lies_whole_on_one_partition(layout):
    homes = {}
    for group in range(layout.key_groups):
        homes.setdefault(layout.instance_of(group), set()).add(layout.owner_of(group))
    assert sorted(homes) == list(range(layout.instances))
    if layout.aligned:
        assert all(len(owners) == 1 for owners in homes.values())
        placed = [instance for partition in range(layout.partitions) for instance in layout.instances_of(partition)]
        assert placed == list(range(layout.instances))
        assert all(
            partition in homes[i] for partition in range(layout.partitions) for i in layout.instances_of(partition)
        )


@given(layouts())
def test_an_instance_is_stored_under_the_first_group_that_it_serves(layout):
    for instance in range(layout.instances):
        home = layout.home_of(instance)
        assert layout.instance_of(home) == instance
        assert home == 0 or layout.instance_of(home - 1) == instance - 1


def test_without_partial_state_no_partition_has_instances():
    assert list(Layout(8, 2, 4, aligned=False).instances_of(0)) == []


@given(layouts(), KEYS)
def test_a_key_lies_in_a_group_that_exists(layout, key):
    assert 0 <= layout.group_of(key) < layout.key_groups


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ((0, 1, 1), "MP204"),
        ((KEY_GROUPS_MAX + 1, 1, 1), "MP204"),
        ((8, 1, 0), "MP205"),
        ((8, 1, 9), "MP205"),
        ((8, 0, 1), "MP206"),
        ((8, 9, 1), "MP206"),
    ],
)
def test_numbers_that_make_no_layout_are_refused(numbers, code):
    with pytest.raises(StateError) as caught:
        Layout(*numbers, aligned=False)
    assert caught.value.code == code


@st.composite
def assigned_layouts(draw):
    """Layouts whose owners are anybody, as far as instances stay whole."""
    plain = draw(layouts())
    chosen = [draw(st.integers(0, plain.partitions - 1)) for _ in plain.atoms]
    return plain.with_owners([owner for owner, atom in zip(chosen, plain.atoms, strict=True) for _ in atom])


@given(layouts() | assigned_layouts())
def test_every_group_has_the_owner_that_says_so_and_instances_lie_whole(layout):
    owners = layout.owners()
    for partition in range(layout.partitions):
        groups = layout.groups_of(partition)
        assert list(groups) == [group for group, owner in enumerate(owners) if owner == partition]
        wanted = sorted({layout.instance_of(group) for group in groups}) if layout.aligned else []
        assert list(layout.instances_of(partition)) == wanted
    assert [layout.owner_of(group) for group in range(layout.key_groups)] == list(owners)


@given(layouts())
def test_atoms_are_all_groups_once_and_owners_in_ranges_keep_them_whole(layout):
    assert [group for atom in layout.atoms for group in atom] == list(range(layout.key_groups))
    assert len(layout.atoms) == (layout.instances if layout.aligned else layout.key_groups)
    assert layout.in_ranges
    assert layout.with_owners(layout.owners()).in_ranges


@given(assigned_layouts())
def test_owners_that_are_assigned_are_in_ranges_if_they_are_those_that_nobody_assigned(layout):
    plain = Layout(layout.key_groups, layout.partitions, layout.instances, layout.aligned)
    assert layout.in_ranges == (layout.owners() == plain.owners())
    assert layout.moved_since(plain) == sum(a != b for a, b in zip(layout.owners(), plain.owners(), strict=True))


@pytest.mark.parametrize(
    ("aligned", "owners"),
    [(False, (0, 1, 2)), (False, (0, 1, 2, 3)), (False, (0, 1, 2, -1)), (True, (0, 1, 2, 2)), (False, ())],
)
def test_owners_that_can_not_be_are_refused(aligned, owners):
    with pytest.raises(ElasticError) as caught:
        Layout(4, 3, 2, aligned, owners)
    assert caught.value.code == "MP680"

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millpond.errors import StateError
from millpond.keygroups import INT_MAX, INT_MIN
from millpond.state.codec.keycodec import KeyCodec

NASTY_TEXT = st.text(st.sampled_from("\x00\x01aé\uffff\U00010000\U0010ffff"), max_size=6)
NASTY_BYTES = st.binary(max_size=6) | st.lists(st.sampled_from([0, 1, 0xFE, 0xFF]), max_size=6).map(bytes)
KEYS = {
    int: st.integers(INT_MIN, INT_MAX),
    str: st.text(st.characters(exclude_categories=("Cs",))) | NASTY_TEXT,
    bytes: st.binary() | NASTY_BYTES,
    bool: st.booleans(),
    datetime.date: st.dates(),
}


def refused(call, *args):
    with pytest.raises(StateError) as caught:
        call(*args)
    return caught.value.code


@st.composite
def pairs(draw):
    """Two keys of one declared type."""
    if draw(st.booleans()):
        kind = draw(st.sampled_from(list(KEYS)))
        return kind, draw(KEYS[kind]), draw(KEYS[kind])
    kinds = tuple(draw(st.lists(st.sampled_from(list(KEYS)), max_size=4)))
    keys = [tuple(draw(KEYS[kind]) for kind in kinds) for _ in range(2)]
    if draw(st.booleans()) and kinds:
        keys[1] = (*keys[0][:-1], keys[1][-1])
    return tuple[kinds], *keys


@given(pairs())
def test_a_key_comes_back_as_it_was(pair):
    hint, key, _ = pair
    codec = KeyCodec(hint)
    back = codec.decode(codec.encode(key))
    assert back == key
    assert type(back) is type(key)


@given(pairs())
@example((tuple[str, int], ("a", 1), ("a\x00", 0)))
@example((tuple[bytes, bytes], (b"\x00", b"\xff"), (b"\x00\xff", b"")))
@example((int, INT_MIN, INT_MAX))
@example((str, "\uffff", "\U00010000"))
def test_the_order_of_the_bytes_is_the_order_of_the_keys(pair):
    hint, one, other = pair
    codec = KeyCodec(hint)
    assert (codec.encode(one) < codec.encode(other)) == (one < other)
    assert (codec.encode(one) == codec.encode(other)) == (one == other)


@pytest.mark.parametrize(
    ("hint", "key", "data"),
    [
        (int, 0, "8000000000000000"),
        (int, -1, "7fffffffffffffff"),
        (str, "a\x00é", "6100c3a9"),
        (bytes, b"\x00\xff", "00ff"),
        (bool, True, "01"),
        (datetime.date, datetime.date(1, 1, 1), "00000001"),
        (tuple[str, int], ("a\x00", 1), "6100ff00008000000000000001"),
        (tuple[()], (), ""),
    ],
)
def test_encodings_are_frozen_for_the_life_of_all_checkpoints(hint, key, data):
    assert KeyCodec(hint).encode(key).hex() == data


@given(st.data(), st.sampled_from(list(KEYS)))
def test_a_column_is_encoded_like_its_keys(data, kind):
    keys = data.draw(st.lists(KEYS[kind]))
    codec = KeyCodec(kind)
    assert codec.encode_many(keys) == [codec.encode(key) for key in keys]


@pytest.mark.parametrize("keys", [[1, 2**63], [1, -(2**63) - 1], [2**200]])
def test_an_integer_beyond_64_bits_is_refused_alone_and_in_a_column(keys):
    assert refused(KeyCodec(int).encode_many, keys) == "MP201"
    assert refused(KeyCodec(int).encode, keys[-1]) == "MP201"
    assert refused(KeyCodec(tuple[int, str]).encode, (keys[-1], "a")) == "MP201"


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        (int, True),
        (int, 1.0),
        (int, np.int64(1)),
        (int, None),
        (bool, 1),
        (str, b"a"),
        (bytes, bytearray(b"a")),
        (datetime.date, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        (tuple[int, str], [1, "a"]),
        (tuple[int, str], (1,)),
        (tuple[int, str], (1, "a", 2)),
        (tuple[int, str], (True, "a")),
        (tuple[()], (1,)),
    ],
)
def test_a_key_of_another_type_is_refused(hint, key):
    codec = KeyCodec(hint)
    assert refused(codec.encode, key) == "MP207"
    assert refused(codec.check, key) == "MP207"
    assert refused(codec.encode_many, [key]) == "MP207"


@pytest.mark.parametrize(("hint", "key"), [(str, "a\udc80"), (tuple[str, int], ("\ud800", 1))])
def test_text_without_a_utf8_form_is_refused_also_by_the_check(hint, key):
    assert refused(KeyCodec(hint).encode, key) == "MP203"
    assert refused(KeyCodec(hint).check, key) == "MP203"


@pytest.mark.parametrize(
    "hint",
    [
        float,
        list[int],
        tuple,
        tuple[int, ...],
        tuple[float],
        int | str,
        None,
    ],
)
def test_a_type_that_can_not_be_a_key_is_refused_when_declared(hint):
    assert refused(KeyCodec, hint) == "MP202"


@pytest.mark.parametrize("hint", [tuple[str, int], tuple[bytes, int]])
def test_a_stored_key_that_breaks_off_is_an_error(hint):
    codec = KeyCodec(hint)
    whole = codec.encode(("ab" if hint == tuple[str, int] else b"ab", 1))
    with pytest.raises(StateError) as caught:
        codec.decode(whole[:2])
    assert caught.value.code == "MP216"

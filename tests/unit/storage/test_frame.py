from __future__ import annotations

import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import StorageError
from millpond.storage.frame import FRAME_VERSION, MAGIC, OVERHEAD_BYTES, SIGNED_VERSION, FrameKind, seal, unseal

NAME = "deltas/some-file"


def header(version=FRAME_VERSION, kind=FrameKind.DELTA, zero=0, length=0):
    packed = struct.pack(">4sHBBQ", MAGIC, version, kind, zero, length)
    return packed + struct.pack(">I", zlib.crc32(packed))


def refused(data, kind=FrameKind.DELTA):
    with pytest.raises(StorageError, match=NAME) as caught:
        unseal(kind, data, NAME)
    return caught.value.code


@given(st.sampled_from(FrameKind), st.binary(max_size=300))
def test_what_was_sealed_is_unsealed(kind, payload):
    assert unseal(kind, seal(kind, payload), NAME) == payload


@given(st.binary(max_size=120))
def test_bytes_that_nobody_sealed_are_refused_with_a_code(data):
    assert refused(data) == "MP301"


def test_every_flipped_bit_is_seen():
    good = seal(FrameKind.DELTA, b"a small payload")
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            assert refused(bytes(bad)) == "MP301"


def test_every_truncation_and_any_trailing_byte_is_seen():
    good = seal(FrameKind.DELTA, b"a small payload")
    for length in range(len(good)):
        assert refused(good[:length]) == "MP301"
    assert refused(good + b"\0") == "MP301"
    assert refused(good + good) == "MP301"


def test_a_newer_format_is_refused_by_its_own_code():
    payload = seal(FrameKind.DELTA, b"")[-32:]
    assert refused(header(version=SIGNED_VERSION + 1) + payload) == "MP302"


def test_another_kind_is_refused_and_both_kinds_are_named():
    with pytest.raises(StorageError, match=r"(?s)manifest.*snapshot") as caught:
        unseal(FrameKind.MANIFEST, seal(FrameKind.SNAPSHOT, b"x"), NAME)
    assert caught.value.code == "MP303"


def test_an_unknown_kind_is_refused():
    assert refused(header(kind=77) + b"\0" * 32) == "MP303"


def test_a_length_beyond_the_file_allocates_nothing():
    bomb = header(length=2**63) + b"\0" * 32
    tracemalloc.start()
    code = refused(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert code == "MP301"
    assert peak < 1_000_000


def test_the_reserved_byte_must_be_zero():
    assert refused(header(zero=1) + b"\0" * 32) == "MP301"


def test_the_frame_costs_what_it_says():
    assert len(seal(FrameKind.GENESIS, b"12345")) == OVERHEAD_BYTES + 5

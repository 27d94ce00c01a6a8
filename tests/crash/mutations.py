"""Bytes spoilt at random: flips, cuts, insertions, lengths that lie, and nesting without end."""

from __future__ import annotations

BOMBS = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\x7f\xff\xff\xff",
    b"\x91" * 2000,
    b"[" * 2000,
    b'{"a":' * 2000,
    b"\xff" * 8,
    b"\x00" * 40,
    b"cposix\nsystem\n(S'touch pickle-was-loaded'\ntR.",
    b"\x80\x04\x95",
)


def spoilt(rng, data: bytes) -> bytes:
    """The same bytes with a few faults in them."""
    bad = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(bad) + 1)
        match rng.randrange(7):
            case 0 | 1 if bad:
                bad[at % len(bad)] ^= 1 << rng.randrange(8)
            case 2:
                del bad[at:]
            case 3:
                bad[at:at] = rng.choice(BOMBS)
            case 4:
                bad[at : at + 8] = rng.randbytes(8)
            case 5:
                del bad[at : at + rng.randrange(1, 9)]
            case _:
                other = rng.randrange(len(bad) + 1)
                bad[at:at] = bad[other : other + 16]
    return bytes(bad)

"""Random numbers of a row: what `self.random` gives.

They follow from the entry point's name and the arguments alone, so that they are the same when the row runs again, in
plain Python and on any number of machines. Two rows that are equal in all arguments get the same numbers: give rows an
id if that matters.

The source is BLAKE2b over (seed, counter). All that it remembers is the two, so it crosses a cut in a few bytes. Whole
numbers, floats, choices, shuffles and samples are drawn by the code of this module, and are the same on every version
of Python; the rarer distributions are those of the library.

>>> source, again = row_random("draw", 7, "ann"), row_random("draw", 7, "ann")
>>> source.randint(1, 6) == again.randint(1, 6), source.random() == again.random()
(True, True)
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import hashlib
import math
import random
from collections.abc import MutableSequence, Sequence
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from millpond.state.codec.wire import carry, encode_values

T = TypeVar("T")

SEED_BYTES: Final = 16
_BLOCK_BYTES: Final = 8
_EPOCH_ZERO: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


class RowRandom(random.Random):  # noqa: S311 - it is a source of chance for programs, not of secrets
    """A `random.Random` whose numbers follow from a seed and how many were drawn."""

    def __init__(self, seed: int, counter: int = 0) -> None:
        self._seed = seed.to_bytes(SEED_BYTES, "big")
        self._counter = counter

    # --- the source

    def getrandbits(self, k: int) -> int:
        """Return a whole number of `k` random bits."""
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        blocks = -(-k // (8 * _BLOCK_BYTES))
        data = b"".join(self._block() for _ in range(blocks))
        return int.from_bytes(data, "big") >> (8 * len(data) - k)

    def _block(self) -> bytes:
        counted = self._counter.to_bytes(8, "big")
        self._counter += 1
        return hashlib.blake2b(counted, key=self._seed, digest_size=_BLOCK_BYTES).digest()

    def random(self) -> float:
        """Return a float of 53 random bits: at least 0, less than 1."""
        return self.getrandbits(53) * 2.0**-53

    def randbytes(self, n: int) -> bytes:
        """Return so many random bytes."""
        return self.getrandbits(8 * n).to_bytes(n, "big")

    def _randbelow(self, n: int) -> int:
        # Drawn again while it is too large: every number is equally likely.
        bits = (n - 1).bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= n:
            drawn = self.getrandbits(bits)
        return drawn

    # --- what is drawn from it by code that no version of Python changes

    def choice(self, seq: Any) -> Any:
        """Return one item of a sequence."""
        if not len(seq):
            raise IndexError("Cannot choose from an empty sequence")
        return seq[self._randbelow(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return one number of `range(start, stop, step)`."""
        numbers = range(start) if stop is None else range(start, stop, step)
        # Not len(): it has no room for more than 2^63 numbers.
        count = (numbers.stop - numbers.start + numbers.step - (1 if numbers.step > 0 else -1)) // numbers.step
        if count <= 0:
            raise ValueError(f"empty range in randrange({start}, {stop}, {step})")
        return numbers.start + numbers.step * self._randbelow(count)

    def randint(self, a: int, b: int) -> int:
        """Return a whole number from `a` to `b`, both included."""
        return self.randrange(a, b + 1)

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Put a list into a random order, in place."""
        for last in range(len(x) - 1, 0, -1):
            drawn = self._randbelow(last + 1)
            x[last], x[drawn] = x[drawn], x[last]

    def sample(self, population: Sequence[T], k: int, *, counts: Any = None) -> list[T]:
        """Return so many different items of a sequence, in a random order."""
        if isinstance(population, set | frozenset):
            raise TypeError("a set has no order of its own: sample sorted(...) of it")
        pool = (
            list(population)
            if counts is None
            else [item for item, n in zip(population, counts, strict=True) for _ in range(n)]
        )
        if not 0 <= k <= len(pool):
            raise ValueError("Sample larger than population or is negative")
        for place in range(k):
            drawn = place + self._randbelow(len(pool) - place)
            pool[place], pool[drawn] = pool[drawn], pool[place]
        return pool[:k]

    def uniform(self, a: float, b: float) -> float:
        """Return a float between `a` and `b`."""
        return a + (b - a) * self.random()

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Return a float of the normal distribution; unlike the library's, it keeps nothing for the next call."""
        angle = self.random() * 2.0 * math.pi
        return mu + math.cos(angle) * math.sqrt(-2.0 * math.log(1.0 - self.random())) * sigma

    normalvariate = gauss

    # --- its state

    @property
    def parts(self) -> tuple[int, int]:
        """What it is made of: its seed, and how many blocks were drawn."""
        return int.from_bytes(self._seed, "big"), self._counter

    def seed(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Refuse it: the seed is the row's."""
        self._fixed()

    def getstate(self) -> tuple[Any, ...]:
        """Return what `setstate` takes."""
        return self.parts

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Go back to where `getstate` was called."""
        seed, self._counter = state
        self._seed = seed.to_bytes(SEED_BYTES, "big")

    def _fixed(self) -> NoReturn:
        raise TypeError("the random numbers of a row follow from the row: they can't be seeded")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowRandom) and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RowRandom({self.parts[0]:#x}, {self.parts[1]})"


carry(RowRandom, "random", lambda value: value.parts, RowRandom)


def row_seed(entry: str, *arguments: Any) -> int:
    """Return the seed of a row: a hash of the entry point's name and the content of the arguments.

    Arguments that are equal for Python give one seed, whatever their types are: a column turns the 1 of a caller into
    1.0, a list into a tuple, a naive time into one of UTC, and the numbers must be the same before and after that.
    """
    out: list[bytes] = []
    _put((entry, arguments), out)
    digest = hashlib.blake2b(b"".join(out), digest_size=SEED_BYTES, person=b"millpond.random").digest()
    return int.from_bytes(digest, "big")


def row_random(entry: str, *arguments: Any) -> RowRandom:
    """Return the random source of a row."""
    return RowRandom(row_seed(entry, *arguments))


def _put(value: Any, out: list[bytes]) -> None:
    """Add a value as bytes that tell it apart from others, but not from its equals."""
    kind = type(value)
    if kind is list or kind is tuple:
        _put_part(b"l%d" % len(value), out)
        for item in value:
            _put(item, out)
    elif kind is dict or kind is set or kind is frozenset or isinstance(value, dict | set | frozenset):
        parts = sorted(map(_bytes_of, value.items() if isinstance(value, dict) else value))
        _put_part((b"d%d" if isinstance(value, dict) else b"l%d") % len(parts), out)
        for part in parts:
            _put_part(part, out)
    elif isinstance(value, tuple | list):
        _put(tuple(value), out)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _put([getattr(value, field.name) for field in dataclasses.fields(value)], out)
    else:
        _put_part(_scalar(value), out)


def _put_part(part: bytes, out: list[bytes]) -> None:
    out += (len(part).to_bytes(8, "big"), part)


def _bytes_of(value: Any) -> bytes:
    out: list[bytes] = []
    _put(value, out)
    return b"".join(out)


def _scalar(value: Any) -> bytes:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return b"n%x" % value
    if isinstance(value, float | decimal.Decimal):
        return b"n" + _number(value)
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return b"t%d" % ((aware - _EPOCH_ZERO) // _MICROSECOND)
    return b"o" + encode_values((value,))


def _number(value: Any) -> bytes:
    if not math.isfinite(value):
        return str(value).lower().encode()
    if value == int(value):
        return f"{int(value):x}".encode()
    return repr(float(value)).encode() if isinstance(value, float) else str(value.normalize()).encode()

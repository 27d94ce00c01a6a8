"""Aggregates that estimate in little space: quantiles by t-digest, distinct values by HyperLogLog.

Both are Apache DataSketches' (extra `sketches`). Its KLL and REQ sketches toss coins that can't be seeded from Python,
and an epoch that is computed again must give the same bytes; t-digest and HyperLogLog toss none. A partial is the
sketch as bytes, and a few values that are not in it yet: making a sketch for every record would cost more than the
records.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate, Field, bad_aggregate, read_by, reader

PENDING_MAX = 128
"""How many values wait beside a sketch, at most: about as many as take the bytes of a small one."""

COMPRESSION = 200
LOG2_BUCKETS = 12

Partial = tuple[bytes, tuple[Any, ...]]
EMPTY: Partial = (b"", ())


def quantiles_of(ranks: Sequence[float], of: Field = None, *, compression: int = COMPRESSION) -> Aggregate:
    """Estimate quantiles, e.g. of the ranks 0.5 and 0.99: a list of floats, or of None if there was no value but NaN.

    The error is smallest at the ends: about 1/compression of the ranks in the middle, far less near 0 and 1.
    """
    wanted = _ranks(ranks)
    if type(compression) is not int or not 10 <= compression <= 65_535:
        raise bad_aggregate("a compression between 10 and 65535", repr(compression)[:60])
    digest = _library().tdigest_double
    read = reader(of)

    def lift(record: Any) -> Partial:
        return b"", (float(read(record)),)

    def fold(data: bytes, others: Sequence[bytes], values: tuple[Any, ...]) -> Any:
        sketch = digest.deserialize(data) if data else digest(compression)
        for other in others:
            sketch.merge(digest.deserialize(other))
        for value in values:
            sketch.update(value)
        return sketch

    def combine(left: Partial, right: Partial) -> Partial:
        sketches = [data for data in (left[0], right[0]) if data]
        values = left[1] + right[1]
        if len(sketches) < 2 and len(values) <= PENDING_MAX:
            return (sketches[0] if sketches else b""), values
        sketch = fold(sketches[0] if sketches else b"", sketches[1:], values)
        return sketch.serialize(), ()

    def lower(partial: Partial) -> list[float | None]:
        sketch = fold(partial[0], (), partial[1])
        if sketch.is_empty():  # It leaves NaN out: there may have been nothing else.
            return [None] * len(wanted)
        return [sketch.get_quantile(rank) for rank in wanted]

    options = (*(f"rank {float(rank)!r}" for rank in wanted), f"compression {compression}")
    return Aggregate(
        "quantiles", lift, combine, lower, EMPTY, partial_type=tuple[bytes, tuple[float, ...]],
        reads=read_by(of), options=options,
    )  # fmt: skip


def _ranks(given: Any) -> tuple[float, ...]:
    found = tuple(given) if isinstance(given, Iterable) else ()
    if not found or not all(isinstance(rank, Real) and 0 <= float(rank) <= 1 for rank in found):
        raise bad_aggregate("ranks between 0 and 1, such as [0.5, 0.99]", repr(given)[:60])
    return found


def distinct_count(of: Field = None, *, log2_buckets: int = LOG2_BUCKETS) -> Aggregate:
    """Estimate how many different values there are, as a float; ints, floats, strings and bytes are values.

    The standard error is about 1.04 / sqrt(2 ** log2_buckets): 1.6 % with 12.
    """
    if type(log2_buckets) is not int or not 4 <= log2_buckets <= 21:
        raise bad_aggregate("log2_buckets between 4 and 21", repr(log2_buckets)[:60])
    library = _library()
    read = reader(of)

    def lift(record: Any) -> Partial:
        return b"", (_hashable(read(record)),)

    def combine(left: Partial, right: Partial) -> Partial:
        values = left[1] + right[1]
        if not (left[0] and right[0]) and len(values) <= PENDING_MAX:
            return left[0] or right[0], values
        return merged((left[0], right[0]), values).serialize_compact(), ()

    def merged(sketches: Sequence[bytes], values: tuple[Any, ...]) -> Any:
        fresh = library.hll_sketch(log2_buckets, library.tgt_hll_type.HLL_8)
        for value in values:
            fresh.update(value)
        union = library.hll_union(log2_buckets)
        for data in sketches:
            if data:
                union.update(library.hll_sketch.deserialize(data))
        union.update(fresh)
        return union.get_result(library.tgt_hll_type.HLL_8)

    def lower(partial: Partial) -> float:
        return float(merged((partial[0],), partial[1]).get_estimate())

    return Aggregate(
        "distinct", lift, combine, lower, EMPTY, partial_type=tuple[bytes, tuple[int | float | str, ...]],
        reads=read_by(of), options=(f"2**{log2_buckets} buckets",),
    )  # fmt: skip


def _hashable(value: Any) -> int | float | str:
    """Return a value as the sketch hashes it: whole numbers as such, whatever their type; bytes as Latin-1 text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, bool | int):
        return int(value) if -(2**63) <= value < 2**63 else str(int(value))
    if isinstance(value, float | str):
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value
    raise WindowError(
        "MP611",
        "this value can't be counted as distinct",
        expected="int, float, str, bytes or bool",
        found=f"{type(value).__name__}: {str(value)[:60]}",
        hint="count a key of the record instead: `of=lambda record: …`",
    )


def _library() -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as error:
        raise WindowError(
            "MP612",
            "sketches need the package datasketches",
            found=f"{type(error).__name__}: {error}",
            hint="pip install 'millpond[sketches]', on every machine that runs tasks",
        ) from error

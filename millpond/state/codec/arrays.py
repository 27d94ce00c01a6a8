"""NumPy values as plain ones and back: type, shape and bytes, never pickle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def array_parts(array: npt.NDArray[Any]) -> tuple[Any, ...] | None:
    """An array as its type, shape, order, writability and bytes; None if it holds Python objects."""
    if array.dtype.hasobject:
        return None
    # Sums over an array follow its layout, and so do their roundings: so the layout travels.
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    kind = np.lib.format.dtype_to_descr(array.dtype)
    return kind, array.shape, order, array.flags.writeable, array.tobytes(order)  # type: ignore[arg-type]


def array_from(kind: Any, shape: tuple[int, ...], order: str, writeable: bool, data: bytes) -> npt.NDArray[Any]:
    """The array of these parts, with memory of its own."""
    dtype = np.lib.format.descr_to_dtype(kind)
    array = np.empty(shape, dtype, order=order)  # type: ignore[call-overload]
    if array.nbytes:
        array[...] = np.frombuffer(data, dtype).reshape(shape, order=order)  # type: ignore[call-overload]
    array.flags.writeable = writeable
    return array  # type: ignore[no-any-return]


def scalar_parts(scalar: np.generic) -> tuple[Any, ...] | None:
    """A NumPy scalar as its type and bytes; text as text, since an array would lose zeros at its end."""
    if scalar.dtype.hasobject:
        return None
    if isinstance(scalar, np.str_):
        # Not str(): NumPy's own cuts zeros off.
        return "U", str.__str__(scalar)
    if isinstance(scalar, np.bytes_):
        return "S", bytes.__getitem__(scalar, slice(None))
    return np.lib.format.dtype_to_descr(scalar.dtype), scalar.tobytes()


def scalar_from(kind: Any, data: Any) -> Any:
    """The scalar of these parts."""
    if kind == "U":
        return np.str_(data)
    if kind == "S":
        return np.bytes_(data)
    return np.frombuffer(data, np.lib.format.descr_to_dtype(kind)).copy()[0]

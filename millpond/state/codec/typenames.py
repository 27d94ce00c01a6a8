"""Types as stable text: what a checkpoint records and what errors show.

>>> type_text(dict[str, list[int] | None]), type_text(type(None))
('dict[str, list[int] | None]', 'None')
"""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin


def type_text(hint: Any) -> str:
    """Write a type hint the same way on every Python: `dict[int, float]`, `int | None`, `Basket`."""
    if hint is None or hint is type(None):
        return "None"
    if hint is Ellipsis:
        return "..."
    origin = get_origin(hint)
    if origin is Union or origin is types.UnionType:
        return " | ".join(type_text(arg) for arg in get_args(hint))
    if origin is not None:
        return f"{type_text(origin)}[{', '.join(type_text(arg) for arg in get_args(hint))}]"
    name: str = getattr(hint, "__qualname__", None) or str(hint)
    return name.rpartition("<locals>.")[2]

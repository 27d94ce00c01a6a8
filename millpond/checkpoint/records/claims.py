"""What a record of a checkpoint claims of itself, checked when it is made and when it is read."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.errors import EpochError


def claim(holds: bool, field: str, expected: str, found: object) -> None:
    """Raise unless something holds of a field."""
    if not holds:
        raise EpochError(
            "MP412",
            f"a record of the checkpoint contradicts itself in `{field}`",
            expected=expected,
            found=str(found)[:200],
        )


def claim_unique(listed: Sequence[object], field: str) -> None:
    """Raise unless each value is there once."""
    twice = (
        sorted({str(value) for value in listed if listed.count(value) > 1}) if len(set(listed)) < len(listed) else []
    )
    claim(not twice, field, "each once", ", ".join(twice))

"""State as DataFrames, as users call it: Spark is loaded when one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millpond.spark.frames.reading import Frame, Session


def read_state(spark: Session, checkpoint: str | Path, element: str, epoch: int | None = None) -> Frame:
    """Read a state element, `key` and `value`, as it was after an epoch, by default the last.

    The epoch is fixed when this is called, however often the DataFrame is used. Partial state has a column `instance`
    too; a `Set` has no `value`, a `Value` no `key`. Values of types without a column of their own are text with JSON.
    """
    from millpond.spark.frames import reading

    return reading.state_frame(spark, checkpoint, element, epoch)


def read_changes(spark: Session, checkpoint: str | Path, element: str, since: int, until: int | None = None) -> Frame:
    """Return what each epoch after `since` changed in a state element, up to `until`, by default the last.

    Columns: `epoch`, `change` (added, changed, removed), `key`, `old`, `new`; `instance` too for partial state. An
    entry that changed in several epochs has several rows. Epoch 0 is the empty state before the first one.
    """
    from millpond.spark.frames import reading

    return reading.change_frame(spark, checkpoint, element, since, until)

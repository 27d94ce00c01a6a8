"""The `millpond` command.

In reading order: `commands`, `terminal`, `explain`, `check`, `unseen`, `doctor`, `state`, `stateshow`,
`stateexport`, `stateverify`, `statekeep`, `serving`.
"""

from __future__ import annotations

from millpond.cli.commands import app, main

__all__ = ["app", "main"]

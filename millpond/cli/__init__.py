"""The `millpond` command."""

from __future__ import annotations

from millpond.cli.commands import app, main

__all__ = ["app", "main"]

"""The commands are built once: typer builds them anew for every call, a quarter of what these tests took."""

from __future__ import annotations

from functools import cache

import pytest
import typer.testing


@pytest.fixture(autouse=True)
def _built_once(monkeypatch):
    monkeypatch.setattr(typer.testing, "_get_command", built)


built = cache(typer.testing._get_command)

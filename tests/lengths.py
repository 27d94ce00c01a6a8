"""Lengths of time for tests that compute with numbers of microseconds."""

from __future__ import annotations

from datetime import timedelta


def us(number):
    """So many microseconds."""
    return timedelta(microseconds=number)

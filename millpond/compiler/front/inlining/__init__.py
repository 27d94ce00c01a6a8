"""Helpers that touch state, written out where they are called.

In reading order: `inline`, `helpers`, `arguments`, `renaming`, `remove_returns`, `evaluation`, `joining`, `bound`.
"""

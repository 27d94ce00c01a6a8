"""Graphs as arrays, and what is ready made for them: no Python per edge.

In reading order: `compressed`, `ranks`, `components`, `paths`, `labels`, `cores`, `edges`, `ready`, `vertex`, `kinds`.
"""

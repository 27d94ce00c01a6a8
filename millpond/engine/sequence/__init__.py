"""Rows in sequence: one task, in input order, whole and uncut, as the plain Python that they are.

In reading order: `ways`, `cutting`, `portions`, `spilled`, `state`, `rows`, `streaming`.
"""

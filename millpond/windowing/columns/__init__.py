"""Windows over whole columns: aggregates, slices, sessions and blocks of many keys at once.

In reading order: `columnar`, `intake`, `vectorised`, `columnsessions`, `blocks`, `narrow`, `ordering`.
"""

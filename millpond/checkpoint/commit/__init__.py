"""The commit protocol: a pure machine, its performer, and what a start settles first.

In reading order: `machine`, `checkpoint`, `commit`, `refusal`, `saver`.
"""

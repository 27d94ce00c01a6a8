"""Checkpoints: what they hold, the commit protocol, and how state is found again. Knows no Spark.

In reading order: `records/`, `commit/`, `recovery`, `snapshots/`, `retention/`, `upkeep/`, `forking`, `repairing`,
`read/`.
"""

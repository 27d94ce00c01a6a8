"""Storage in an append-only log with an index in memory.

In reading order: `log`, `logrecord`, `logindex`, `logtail`, `logcompact`.
"""

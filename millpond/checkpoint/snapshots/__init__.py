"""Snapshots: when they pay, and how a process beside the job merges committed files into one.

In reading order: `snapshots`, `background`, `compaction`.
"""

"""Partitions stay on the executor that has their state: anchors, executors and their stores.

In reading order: `placement`, `executor`, `forgetting`.
"""

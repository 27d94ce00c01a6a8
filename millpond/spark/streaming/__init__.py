"""The streaming query of a job: batches, ticks, queues, Spark's own checkpoint, Spark Connect.

In reading order: `streaming`, `connect`, `ticks`, `sparklog`, `workroot`.
"""

"""An epoch as one Spark job: routed, exchanged, worked on, collected by a single action.

In reading order: `compute`, `epochcuts`, `route`, `hashing`, `worker`, `collecting`, `tables`.
"""

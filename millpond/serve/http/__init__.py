"""A follower over HTTP: reads, entry points that change nothing, changes as they are committed.

In reading order: `options`, `guard`, `answers`, `routes`, `events`, `openapi`, `server`.
"""

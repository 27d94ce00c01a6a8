"""State of rows that run in sequence: all of an element at hand, each entry read when it is first touched.

In reading order: `entries`, `overlay`, `aged`, `timers`.
"""

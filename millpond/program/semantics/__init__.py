"""What holds while a row runs: its time, its random numbers, values at its end, and undo if it raises.

In reading order: `rows`, `ambient`, `epoch_time`, `row_random`, `reach`, `written`.
"""

"""Time of epochs: watermarks, late rows, timers, and state with a time to live.

In reading order: `declared`, `timekeeping`, `eventtime`, `laterows`, `timers`, `ttl`.
"""

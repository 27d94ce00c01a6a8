"""Where slices wait until their windows end: eager, on demand and by prefixes.

In reading order: `stores`, `flatfat`, `counters`.
"""

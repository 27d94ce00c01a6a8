"""Where slices wait until their windows end: eager, lazy and by prefixes.

In reading order: `stores`, `flatfat`, `lazystore`, `prefixes`, `counters`.
"""

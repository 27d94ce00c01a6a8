"""What a window computes: aggregates by record.

In reading order: `aggregates`, `plain`, `gathering`, `sketches`.
"""

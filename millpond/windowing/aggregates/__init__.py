"""What a window computes. A file is a family of aggregates, and says all of it: by record, by columns, and its types.

In reading order: `aggregates`, `forms`, `sums`, `extremes`, `variances`, `picks`, `gathering`, `sketches`.
"""

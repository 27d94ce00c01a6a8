"""The open windows of one key, as plain values in state.

In reading order: `keyslices`, `keysessions`, `keyblocks`, `merging`, `keycells`, `keycolumns`, `keyrows`, `notes`.
"""

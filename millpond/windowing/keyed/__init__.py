"""The open windows of one key, as plain values in state.

In reading order: `keyslices`, `keysessions`, `keycells`, `keycolumns`, `keyrows`, `notes`.
"""

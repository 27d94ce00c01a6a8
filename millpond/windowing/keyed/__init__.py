"""The open windows of one key, as plain values in state.

In reading order: `keyslices`, `keysessions`, `keyrows`, `keycells`, `keycolumns`, `keyblocks`, `keywaiting`,
`merging`, `judging`, `corrections`, `notes`.
"""

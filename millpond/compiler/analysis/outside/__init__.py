"""Objects that are outside of a row, and who may change them.

In reading order: `check`, `opening`, `things`, `may_alias`.
"""

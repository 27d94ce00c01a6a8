"""The part of a gathered method that its keys follow from, without state.

In reading order: `key_sets`, `notes`, `code`, `straight`, `branches`, `loops`.
"""

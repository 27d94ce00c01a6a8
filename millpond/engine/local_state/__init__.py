"""A partition's state on its host: opened at the committed parent, restored, consolidated, filled at the start.

In reading order: `openstate`, `initialstate`, `rescaling`.
"""

"""Rows over several keys: which keys they touch, where they run together, each all or nothing.

In reading order: `touched`, `components`, `placing`, `homes`, `transactions`, `links`, `uncut`, `keycodes`.
"""

"""The order of sets, and who may see it.

In reading order: `order`, `expressions`, `kinds`, `uses`, `sights`.
"""

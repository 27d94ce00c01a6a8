"""Kinds of windows: where they begin and end.

In reading order: `kinds`, `periodic`, `grids`, `calendar`, `cuts`, `driven`, `userdefined`.
"""

"""Kinds of windows: where they begin and end.

In reading order: `kinds`, `periodic`, `calendar`, `grids`, `cuts`, `driven`, `userdefined`, `views`.
"""

"""Storages made of others: by state element, over several roots, near the host, on top of a base.

In reading order: `elements`, `spread`, `unsynced`, `layered`.
"""

"""The local store: a partition's committed state in LMDB beside the workers, checked and never the only copy.

In reading order: `localstore`, `storeversion`, `storekey`, `storeview`, `storeuse`, `storecheck`, `ownfolders`.
"""

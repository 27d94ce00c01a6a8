"""Programs as people write them, from the published examples of other systems: all accepted as they stand.

Each module has CASES: programs with the rows that they are run over.
"""

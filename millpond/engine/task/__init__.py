"""One task of a step: its rows, its state, its order, and what it hands on.

In reading order: `step`, `working`, `intake`, `rowbatch`, `columns`, `ordering`, `inorder`, `merging`,
`badrows`, `delivery`, `spill`.
"""

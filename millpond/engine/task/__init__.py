"""One task of a step: its rows, its state, its order, and what it hands on.

In reading order: `step`, `working`, `intake`, `prepared`, `columns`, `ordering`, `inorder`, `merging`, `undoing`,
`leftout`, `badrows`, `delivery`, `portions`, `windowadds`.
"""

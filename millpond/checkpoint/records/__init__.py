"""What a checkpoint holds: genesis, manifests, deltas, and the names of its files.

In reading order: `offers`, `times`, `manifest`, `claims`, `format1`, `deltas`, `work`, `naming`, `heads`,
`notes`, `saves`.
"""

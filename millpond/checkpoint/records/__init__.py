"""What a checkpoint holds: genesis, manifests, deltas, and the names of its files.

In reading order: `manifest`, `genesis`, `deltas`, `work`, `naming`, `times`, `heads`, `notes`, `saves`.
"""

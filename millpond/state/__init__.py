"""State: containers, codecs, the overlay of an epoch, and the local store beside the workers.

In reading order: `containers/`, `codec/`, `changes`, `overlay`, `units`, `foreseen`, `rowentries`,
`journal`, `copying`, `expiry`, `aged`, `timers`, `cascade`, `sequence/`, `evolution`, `local/`.
"""

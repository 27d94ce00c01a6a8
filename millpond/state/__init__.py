"""State: containers, codecs, the overlay of an epoch, and the local store beside the workers.

In reading order: `containers/`, `codec/`, `overlay`, `units`, `foreseen`, `rowentries`, `checked`, `journal`,
`journaled`, `copying`, `expiry`, `aged`, `timers`, `cascade`, `sequence/`, `evolution`, `local/`.
"""

"""State: containers, codecs, the overlay of an epoch, and the local store beside the workers."""

"""Storage: bytes under a name, put once, durable on return, checked when read."""

"""Keys and values as bytes: durable and checked, between tasks, and as types that a checkpoint can name.

In reading order: `keycodec`, `valuecodec`, `wire`, `canonical`, `nesting`, `records`, `classes`, `sharing`,
`shapes`, `oldtypes`, `typenames`, `shown`.
"""

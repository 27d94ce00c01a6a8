"""Keys and values as bytes: durable and checked, between tasks, and as types that a checkpoint can name.

In reading order: `keyforms`, `keycodec`, `adapted`, `valuecodec`, `wire`, `canonical`, `nesting`, `records`, `classes`,
`sharing`, `shapes`, `oldtypes`, `typenames`, `shown`.
"""

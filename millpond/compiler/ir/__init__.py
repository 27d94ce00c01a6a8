"""The form of a method that later passes work on: one access to a statement, then flat instructions and jumps.

In reading order: `normal_form`, `order`, `hoist`, `apart`, `flatten`, `jumps`, `patterns`, `model`, `lower`, `text`,
`cfg`, `blocks`.
"""

"""The form of a method that all later passes work on: one access to a statement, and jumps where a cut may lie.

In reading order: `normal_form`, `order`, `hoist`, `apart`, `flatten`, `jumps`, `patterns`, `cfg`, `blocks`.
"""

"""Which epochs stay readable, and garbage collection of what no kept epoch needs.

In reading order: `retention`, `savepoints`, `reachable`, `deletionlist`, `retired`, `collection`.
"""

"""Reading a checkpoint from its files alone: no Spark, no program, and nothing of what is read is run.

In reading order: `history`, `entries`, `groups`, `elements`, `typed`, `pieces`, `plain`, `loose`, `keytexts`,
`typetexts`, `verify`.
"""

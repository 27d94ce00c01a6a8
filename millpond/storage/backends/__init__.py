"""The kinds of storage: each keeps bytes under a name, put once, durable on return.

In reading order: `files`, `memory`, `perkey`, `objects`, `remote`, `redis`, `rocks`, `witness`,
`log/`.
"""

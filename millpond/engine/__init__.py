"""Ways to run a compiled program: one record at a time, and simulated; all that a run on Spark is made of, too.

In reading order: `options`, `plan`, `messages`, `sequential`, `simulated`, `onetask`, `assemble`, `failures`, `schema`,
`arrowtypes`, `arrowstream`, `statetables`, `task/`, `gathered/`, `sequence/`, `time/`, `local_state/`, `publish/`,
`durability/`, `elastic/`.
"""

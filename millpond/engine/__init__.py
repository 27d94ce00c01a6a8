"""All that a run is made of, on Spark or simulated: a driver, an engine that computes epochs, and the tasks of a step.

In reading order: `options`, `plan`, `driver`, `compute`, `onetask`, `simulated`, `task/`, `messages`, `assemble`,
`failures`, `gathered/`, `sequence/`, `time/`, `local_state/`, `publish/`, `durability/`, `elastic/`, `sequential`,
`schema`, `arrowtypes`, `arrowstream`, `statetables`.
"""

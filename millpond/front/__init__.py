"""What users call and what loads Spark only then: the program on Spark, a session, DataFrames, open state.

In reading order: `program`, `session`, `frames`, `opened`, `tables`.
"""

"""What users call and what loads Spark only then: the program on Spark, state and windows as DataFrames.

In reading order: `program`, `frames`, `graphs`.
"""

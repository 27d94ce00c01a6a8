"""What users call and what loads Spark only then: the program on Spark, state and windows as DataFrames, open state.

In reading order: `program`, `frames`, `graphs`, `opened`, `tables`, `differences`, `declared`.
"""

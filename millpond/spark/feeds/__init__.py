"""DataFrames as feeds: matched to entry points by name and type, with event time; dead letters and initial state.

In reading order: `feeds`, `matching`, `columntypes`, `kafkarows`, `letters`, `initialfeed`.
"""

"""State, windows and joins as DataFrames, batch and streaming.

In reading order: `reading`, `windows`, `windowstreams`, `windowjoins`, `joinstreams`, `streamed`, `windowplan`,
`windowtypes`, `windowcolumns`, `windowrecords`, `joinprograms`.
"""

"""State, windows and joins as DataFrames, batch and streaming.

In reading order: `reading`, `windows`, `windowplan`, `windowcolumns`, `windowrecords`, `windowjoins`, `windowstreams`,
`joinstreams`, `looprows`, `loopframes`, `graphframes`.
"""

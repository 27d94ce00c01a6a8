"""Campaigns against Millpond: random programs and rows, run as plain Python and as compiled graphs, and compared.

`python -m tests.fuzz.programs --count N --seed S` runs one from the terminal. `grammar.generate` makes a program from a
seed, `rows.random_rows` makes rows for it, `compare.compare` runs it both ways, `shrink.shrink` makes a failure small,
and `campaign.run` does all of it many times. `transactions` are programs over several keys, `faults` whole runs while
disks, tasks, sinks and drivers fail.
"""

"""A campaign against gathered execution: transactional programs, as plain Python and on many partitions, compared.

`python -m tests.fuzz.transactions --count N --seed S` runs it from the terminal. `grammar.generate` makes a
program whose methods touch several keys, `rows.random_rows` makes rows whose keys meet, `truth.truth_of` is what plain
Python makes of them when each row is all or nothing, and `compare.compare` holds a run against it. `worlds` has
programs as users write them. `audit` reads a checkpoint alone, and says what held at each of its epochs.
"""

from __future__ import annotations

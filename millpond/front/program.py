"""`Program` as users see it: the plain class, what the compiler makes of it, and the way onto Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Never

from millpond.compiler.explain import Format, explain
from millpond.engine.options import Durability, Tuning
from millpond.program.program import ProgramBase

if TYPE_CHECKING:
    from millpond.spark.job import Job, Session


class Program(ProgramBase):
    """A plain Python class with state: instantiate it to run it as ordinary Python, or put it on Spark with `on`.

    >>> from millpond import Counter, Partitioned, Program, entry
    >>> class Words(Program):
    ...     counts = Partitioned(Counter[str])
    ...
    ...     @entry
    ...     def add(self, word: str) -> int:
    ...         self.counts[word] += 1
    ...         return self.counts[word]
    >>> words = Words()
    >>> words.add("mill"), words.add("mill")
    (1, 2)
    """

    @classmethod
    def explain(cls, format: Format = "text") -> str:  # noqa: A002
        """Show the graph that the compiler makes of the program: tasks, state, edges, and why there are cuts."""
        return explain(cls, format)

    @classmethod
    def on(
        cls,
        spark: Session,
        *,
        checkpoint: str | Path,
        partitions: int | None = None,
        local_root: str | Path | None = None,
        progress: bool | None = None,
        durability: Durability | None = None,
        tuning: Tuning | None = None,
        **old: Never,
    ) -> Job:
        """Put the program on a Spark session, with its state in `checkpoint`; the session is taken as it is.

        `partitions` is by default the session's number of shuffle partitions. `local_root` is where workers keep their
        copy of the state (on a cluster, by default in a folder of each executor among Spark's local directories).
        `progress` shows epochs in the terminal (by default if there is one). `durability` says what is kept of the
        state, and how it is restored; `tuning` how epochs are run, which no result depends on.
        """
        from millpond.spark.job import Job

        return Job(
            cls,
            spark,
            checkpoint=checkpoint,
            partitions=partitions,
            local_root=local_root,
            progress=progress,
            durability=durability,
            tuning=tuning,
            **old,
        )

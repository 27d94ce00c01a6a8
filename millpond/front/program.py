"""`Program` as users see it: the plain class, what the compiler makes of it, and the way onto Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from millpond.compiler.explain import Format, explain
from millpond.engine.options import Durability, Tuning
from millpond.program.program import ProgramBase
from millpond.program.settings import configured

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
    def explain(cls, format: Format = "text", *, settings: Mapping[str, Any] | None = None) -> str:  # noqa: A002
        """Show the graph that the compiler makes of the program: tasks, state, edges, and why there are cuts.

        `settings` are as in `on`, for a program that has some without defaults.
        """
        return explain(configured(cls, settings), format)

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
        settings: Mapping[str, Any] | None = None,
        **old: Never,
    ) -> Job:
        """Put the program on a Spark session, with its state in `checkpoint`; the session is taken as it is.

        `partitions` is by default the session's number of shuffle partitions. `local_root` is where workers keep their
        copy of the state (on a cluster, by default in a folder of each executor among Spark's local directories).
        `progress` shows epochs in the terminal (by default if there is one). `durability` says what is kept of the
        state, and how it is restored; `tuning` how epochs are run, which no result depends on. `settings` are the
        arguments of the program's `__init__`, or values for constants of its class: all rows read them, and a restart
        may change them (docs/SETTINGS.md).
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
            settings=settings,
            **old,
        )

"""`Program` as users see it: the plain class, what the compiler makes of it, and the way onto Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from millpond.checkpoint.retention.retention import Keep
from millpond.compiler.explain import Format, explain
from millpond.program.program import ProgramBase

if TYPE_CHECKING:
    from millpond.engine.elastic.options import Elastic, Mode
    from millpond.engine.local_state.opening import Restore
    from millpond.engine.plan import Level
    from millpond.spark.job import Job, Session


_KEEP = Keep()


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
        key_groups: int | None = None,
        instances: int | None = None,
        local_root: str | Path | None = None,
        progress: bool | None = None,
        retries: int = 3,
        small_epoch: int = 20_000,
        steps: int = 8,
        work: str | Path | None = None,
        restore: Restore = "lazy",
        keep: Keep | None = _KEEP,
        durability: Level = "exactly_once",
        keep_in_place: bool = True,
        elastic: Mode | Elastic = "off",
        memory_mb: int | None = 1024,
    ) -> Job:
        """Put the program on a Spark session, with its state in `checkpoint`; the session is taken as it is.

        `partitions` is by default the session's number of shuffle partitions. `key_groups` (128) is fixed when the
        checkpoint is made; another number of `instances` of partial state (8) changes the checkpoint once, before the
        first epoch. `local_root` is where workers keep their copy of the state (on a cluster, by default in a folder of
        each executor among Spark's local directories). `progress` shows epochs in the terminal
        (by default if there is one). `retries` is how often a job that Spark aborts is tried again. On one machine, an
        epoch after one of at most `small_epoch` rows runs in a single task, which saves the shuffles; 0 never does
        that. `steps` is how many steps an epoch may take where data decides (loops of relaxed entry points); what is
        left is committed, and goes on in an epoch of its own. `work` is a folder that driver and executors share, for
        Spark's own checkpoint if this one is not in a folder (by default beside the local copies; a cluster needs one).
        `restore` says when workers without a copy of a large state restore it: a key group when it is first used
        (`"lazy"`), or all before the first row (`"eager"`). `keep` says which epochs stay readable (the last 100; None
        for all), `durability` what a commit keeps of an epoch: what it changed, its rows (`"replay"`), or of each key
        what is due (`"lazy"`, `Lazy(...)`). On a cluster, partitions stay on the executor that has their state, unless
        `keep_in_place` is false. `elastic` says whether partitions come and go and key groups move as the load wants it
        (`"act"`, `Elastic(...)`), or whether that is only told (`"advise"`). `memory_mb` is about what a task may hold
        of rows and of the state that they touch; more than that is worked on in portions (None for all at once).
        """
        from millpond.spark.job import Job

        return Job(
            cls,
            spark,
            checkpoint=checkpoint,
            partitions=partitions,
            key_groups=key_groups,
            instances=instances,
            local_root=local_root,
            progress=progress,
            retries=retries,
            small_epoch=small_epoch,
            steps=steps,
            work=work,
            restore=restore,
            keep=keep,
            durability=durability,
            keep_in_place=keep_in_place,
            elastic=elastic,
            memory_mb=memory_mb,
        )

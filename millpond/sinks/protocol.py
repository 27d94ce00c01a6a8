"""What a sink is: it describes itself, gets the files of committed epochs by token, and tells at a start what it holds.

An epoch reaches a sink in this order, and a process may die between any two steps:

1. Tasks write the rows as Parquet files, where `describe` says or beside the checkpoint: they are staged.
2. The epoch is committed. Its manifest names the staged files; files that no manifest names are never published.
3. `publish` gets the files, once they are found to be the very ones that were staged.
4. A note says that this is done, and the staged files go. The next epoch is not begun before that.

At every start `recover` comes first, and then steps 3 and 4 for the last epoch, unless its note is there. So `publish`
may be called again with a token that it has seen, after a crash between 3 and 4, and with none that is older.

>>> class Printing(Sink):
...     def describe(self) -> SinkDescription:
...         return SinkDescription("standard output")
...
...     def publish(self, token: Token, staged: Staged) -> None:
...         print(token.epoch, staged.table().to_pylist())
>>> Printing().describe().exactly_once, Printing().recover(Token("uuid", (), "add.replies", 0), ())
(False, ())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millpond.errors import FeedError
from millpond.sinks.tokens import Token

if TYPE_CHECKING:
    import pyarrow as pa

Frames = Callable[[Sequence[Path]], Any]
"""Makes a DataFrame of Parquet files."""

Spread = Callable[[Sequence[Callable[[], str]]], list[str]]
"""Calls functions in tasks, each in one, and returns what they return; they may be called again if a task fails."""


@dataclass(frozen=True, slots=True)
class SinkDescription:
    """What must be known of a sink.

    `place` names it in errors: the same at every start, and without passwords. A sink that is `exactly_once` shows what
    it gets under a token once, however often it gets it, and tells by `recover` what it holds; any other one may show
    an epoch again after a crash.

    Files wait in the folder `_staged` of `staging`, which all tasks must be able to write to, so that publishing can be
    a rename; by default they wait in or beside the checkpoint. If they are published by appearing in `staging` under
    the names in their tokens, it is a sink of which a `manifest_tells` all: then an epoch is published there even if
    the job has another sink by the time that it starts again.
    """

    place: str
    exactly_once: bool = False
    staging: Path | None = None
    manifest_tells: bool = False


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file of an epoch, which is the one that was staged: its token, where it is, and how many rows it has.

    It is gone when `publish` returns.
    """

    token: Token
    path: Path
    rows: int

    def read(self) -> pa.Table:
        """Return all rows of the file."""
        # Here, because `import millpond` needs no Arrow.
        import pyarrow.parquet as pq

        return pq.ParquetFile(self.path).read()


@dataclass(frozen=True, slots=True)
class Staged:
    """The files of an epoch for a sink, in the order of the tasks that wrote them; at least one."""

    files: tuple[StagedFile, ...]
    frames: Frames | None = None
    tasks: Spread | None = None

    def table(self) -> pa.Table:
        """Return all rows, in memory."""
        import pyarrow as pa

        return pa.concat_tables([file.read() for file in self.files])

    def spread(self, functions: Sequence[Callable[[], str]]) -> list[str]:
        """Call functions, and return what they return: in tasks of Spark if those can read the files, else here.

        A task may fail and be run again, so what a function writes must be known by its token. Functions and what they
        raise travel between processes: return errors as text.
        """
        if self.tasks is None or len(functions) < 2:
            return [function() for function in functions]
        return self.tasks(functions)

    def frame(self) -> Any:
        """Return all rows as a DataFrame, if this is Spark: large epochs need not fit into the driver."""
        if self.frames is None:
            raise FeedError(
                "MP531",
                "there is no Spark to make a DataFrame",
                expected="a job on Spark",
                hint="table() gives the rows in every kind of run",
            )
        return self.frames([file.path for file in self.files])


class Sink(ABC):
    """Where rows go. A sink of your own has `describe` and `publish`; to be exactly once, `recover`, too.

    All methods are called by the driver, one at a time. What they raise fails the epoch's publication with MP605, and
    it is tried again at the next start, before anything else: the rows wait, committed.
    """

    __slots__ = ()

    @abstractmethod
    def describe(self) -> SinkDescription:
        """Say what must be known of the sink: asked before a job starts, so nothing may be waited for."""

    @abstractmethod
    def publish(self, token: Token, staged: Staged) -> None:
        """Make the rows of a committed epoch seen, durably: they are forgotten elsewhere when this returns.

        `token` stands for all of the epoch, and each file has one of its own. After a crash both may come again, and
        then nothing may be shown twice: whoever writes the token in one transaction with the rows is done.
        """

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:  # noqa: ARG002
        """Put right what a crash has left, and return which of these files the sink holds already.

        Called once at each start, before anything else. `token` is of the last committed epoch, 0 if there is none,
        and `files` are those that it has for this sink. Files that are returned are not published again.
        """
        return ()

    def held(self, schema: pa.Schema) -> pa.Table | Path | None:  # noqa: ARG002
        """Return all that the sink holds, as a table with this schema or a folder of Parquet files; None if unknown.

        `Job.replay` reads dead letters by it.
        """
        return None

"""A test for sinks of your own: every promise of `millpond.sinks.Sink`, tried without Spark.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from millpond import memory
>>> sink = memory()
>>> with TemporaryDirectory() as folder:
...     check_sink(lambda: sink, lambda held: held.rows(), Path(folder))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochWork
from millpond.checkpoint.forking import fork
from millpond.checkpoint.records.manifest import Manifest
from millpond.checkpoint.records.offers import Batch
from millpond.engine.plan import SinkPlan
from millpond.engine.publish.publish import Publisher
from millpond.engine.publish.replies import stage, staging_mark
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token
from millpond.storage.backends.files import FileStorage

Rows = list[dict[str, Any]]
MakeSink = Callable[[], Sink]
ReadRows = Callable[[Any], Rows]

_SINK = "feed.replies"
_SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("text", pa.string()),
        ("amount", pa.float64()),
        ("nested", pa.struct([("numbers", pa.list_(pa.int64())), ("name", pa.string())])),
    ]
)


def check_sink(make: MakeSink, read: ReadRows, folder: Path) -> None:
    """Try a sink in all ways in which an epoch can reach it, and raise an `AssertionError` that says what is wrong.

    `make` opens the sink, always at the same place, as every start of a job does; `read` gives all rows that its
    readers see, as dicts, in any order. Rows hold nulls, text beyond ASCII, and nested values. A sink that says that
    it is exactly once is held to that; any other one may show an epoch again that came again. `folder` is empty, and
    for checkpoints.
    """
    contract = _Contract(make, read, folder, Counter(map(repr, read(make()))))
    contract.epochs_are_seen_whole_and_in_turn()
    contract.what_is_not_committed_is_never_seen()
    contract.a_crash_before_publication_loses_nothing()
    contract.a_crash_after_publication_repeats_nothing()
    contract.a_token_that_comes_again_changes_nothing()
    contract.a_fork_is_not_taken_for_its_base()


class _DiedError(BaseException):
    """The process of the driver ends here."""


@dataclass(slots=True)
class _Contract:
    make: MakeSink
    read: ReadRows
    folder: Path
    seen: Counter[str]
    """What readers should have seen so far."""
    made: int = 0

    def epochs_are_seen_whole_and_in_turn(self) -> None:
        job = self.job("plain")
        for files in (2, 0, 1):
            rows = [self.rows() for _ in range(files)]
            job.run(rows)
            self.expect("an epoch", rows)

    def what_is_not_committed_is_never_seen(self) -> None:
        job = self.job("uncommitted")
        job.staged([self.rows()])
        self.expect("staged rows of an epoch that was not committed", [])
        rows = [self.rows()]
        self.job("uncommitted").run(rows)
        self.expect("the epoch that was committed in its place", rows)

    def a_crash_before_publication_loses_nothing(self) -> None:
        rows = [self.rows(), self.rows()]
        job = self.job("unpublished")
        job.dies(lambda: job.run(rows, publish=_die))
        self.expect("an epoch before its publication", [])
        job = self.job("unpublished")
        self.expect("an epoch that the next start publishes", rows)
        job.run(rows := [self.rows()])
        self.expect("the epoch after that", rows)

    def a_crash_after_publication_repeats_nothing(self) -> None:
        rows = [self.rows(), self.rows()]
        job = self.job("unnoted", lambda: _Dying(self.make()))
        job.dies(lambda: job.run(rows))
        self.expect("an epoch whose driver died right after it was published", rows)
        exactly_once = self.make().describe().exactly_once
        held = set(self.make().recover(job.token, job.tokens))
        assert not exactly_once or held == set(job.tokens), f"recover tells {held} of {job.tokens} that are published"
        other = job.token.of_file("never")
        assert other not in self.make().recover(job.token, [other]), "recover tells of a file that was never published"
        self.job("unnoted")
        self.expect("an epoch after a start that finds it published", [], again=rows)

    def a_token_that_comes_again_changes_nothing(self) -> None:
        rows = [self.rows(), self.rows()]
        job = self.job("again", lambda: _Dying(self.make()))
        job.dies(lambda: job.run(rows))
        self.expect("an epoch", rows)
        self.job("again", lambda: _Forgetful(self.make()))
        self.expect("an epoch that is published twice by the same tokens", [], again=rows)

    def a_fork_is_not_taken_for_its_base(self) -> None:
        self.job("base").run(rows := [self.rows()])
        self.expect("an epoch", rows)
        fork(self.folder / "base", self.folder / "fork")
        both = [self.rows()]
        self.job("base").run(both)
        self.expect("the next epoch of the base", both)
        self.job("fork").run(both)
        self.expect("the same rows in the same epoch of a fork", both)

    def job(self, name: str, make: MakeSink | None = None) -> _Job:
        return _Job((make or self.make)(), self.folder / name, self.folder / f"{name}-outputs")

    def rows(self) -> Rows:
        """Return two rows that were never there."""
        self.made += 2
        nested = {"numbers": [self.made, None], "name": "ß"}
        full = {"n": self.made, "text": "a 'quoted' é", "amount": 0.5, "nested": nested}
        return [full, {"n": self.made + 1, "text": None, "amount": None, "nested": {"numbers": None, "name": None}}]

    def expect(self, what: str, added: Sequence[Rows], again: Sequence[Rows] = ()) -> None:
        """Check that readers see what they saw, and these rows; those `again` once more at most, where allowed."""
        sink = self.make()
        self.seen.update(repr(row) for rows in added for row in rows)
        found = Counter(map(repr, self.read(sink)))
        repeated = found - self.seen
        if not sink.describe().exactly_once:
            repeated -= Counter(repr(row) for rows in again for row in rows)
            self.seen |= found - repeated
        assert not repeated, f"{what}: readers see rows that should not be there: {_some(repeated)}"
        assert not (lost := self.seen - found), f"{what}: readers do not see {_some(lost)}"


class _Job:
    """A start of a job with one sink, and epochs that are nothing but replies."""

    def __init__(self, sink: Sink, checkpoint: Path, outputs: Path) -> None:
        self._plan = SinkPlan.of(_SINK, sink, outputs)
        self._checkpoint = Checkpoint.open(FileStorage(checkpoint), ())
        genesis = self._checkpoint.genesis
        self._publisher = Publisher(genesis, {_SINK: (sink, self._plan)}, frames=_table)
        self._publisher.begin(self._checkpoint)
        self.token = Token(genesis.uuid, genesis.lineage, _SINK, self._checkpoint.epoch)
        self.tokens: list[Token] = []

    def staged(self, files: Sequence[Rows]) -> EpochWork:
        """Stage the files of the next epoch."""
        epoch = self._checkpoint.epoch + 1
        mark = staging_mark(epoch, self.token.checkpoint)
        tables = [pa.Table.from_pylist(rows, schema=_SCHEMA) for rows in files]
        outputs = [stage(self._plan, table, f"{mark}-00-{part:05}") for part, table in enumerate(tables)]
        self.token = Token(self.token.checkpoint, self.token.lineage, _SINK, epoch)
        self.tokens = [self.token.of_file(output.file.name) for output in outputs]
        return EpochWork((), tuple(outputs), {})

    def run(self, files: Sequence[Rows], publish: Callable[[Manifest], None] | None = None) -> None:
        """Run an epoch that replies these files."""
        work, head = self.staged(files), self._checkpoint.head
        offer = Batch("query", 0 if head is None or head.stream is None else head.stream.number + 1)
        self._checkpoint.run_epoch(offer, lambda _: work, publish or self._publisher.publish, partitions=1)

    def dies(self, what: Callable[[], None]) -> None:
        """Do something that the process does not survive."""
        try:
            what()
        except _DiedError:
            return
        raise AssertionError("nothing was published")


@dataclass(frozen=True, slots=True)
class _Dying(Sink):
    """A sink whose driver dies as soon as it has published something."""

    sink: Sink

    def describe(self) -> SinkDescription:
        return self.sink.describe()

    def publish(self, token: Token, staged: Staged) -> None:
        self.sink.publish(token, staged)
        raise _DiedError

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        return self.sink.recover(token, files)


@dataclass(frozen=True, slots=True)
class _Forgetful(Sink):
    """A sink that does not tell what it holds, so that it gets all of it again."""

    sink: Sink

    def describe(self) -> SinkDescription:
        return self.sink.describe()

    def publish(self, token: Token, staged: Staged) -> None:
        self.sink.publish(token, staged)

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        self.sink.recover(token, files)
        return ()


def _die(manifest: Manifest) -> None:
    raise _DiedError(manifest.epoch)


def _table(files: Sequence[Path]) -> pa.Table:
    """Return what stands for a DataFrame where no Spark is."""
    return pa.concat_tables([pq.ParquetFile(path).read() for path in files])


def _some(rows: Counter[str]) -> str:
    return "; ".join(sorted(rows.elements())[:3])

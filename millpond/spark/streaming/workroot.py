"""Where a job on Spark keeps what is not in its checkpoint: Spark's own checkpoint, and files on their way to a sink.

A checkpoint in a folder has room for both. Beside any other one there is a work folder, which the driver and the
executors share. What must not be lost with it is not there: staged replies are in the checkpoint itself. Without
Spark's own checkpoint a stream does not know where its sources were: then the next batch does not follow, and is
refused or adopted as ever (`checkpoint/commit/machine.py`).
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from millpond.engine.publish.replies import IN_CHECKPOINT
from millpond.engine.publish.staging import CheckpointArea
from millpond.errors import FeedError
from millpond.sinks.protocol import Spread
from millpond.spark.exchange.tables import frame_of
from millpond.state.local.ownfolders import make_private, own_folder
from millpond.storage.addresses import shown_url
from millpond.storage.backends.files import FileStorage
from millpond.storage.contract import Storage, bottom

OUTPUTS, SPARK, HANDED_OVER, WORK = "outputs", "spark", "handed", "work"

LOCAL_BYTES_MAX = 4 << 20
"""Replies of an epoch up to this size are handed over from the driver's memory: reading them costs no Spark job."""


@dataclass(frozen=True, slots=True)
class WorkRoot:
    """The places of a job; `folder` is None if there is none that driver and executors share."""

    storage: Storage
    folder: Path | None
    outputs: Path
    """Where replies wait that do not appear in a folder of their own."""

    @classmethod
    def of(
        cls, storage: Storage, work: str | Path | None, local_root: str, checkpoint_uuid: str, *, one_host: bool
    ) -> WorkRoot:
        """Return the places for a checkpoint; `work` is what the user said, and else it is beside the local stores."""
        given = None if work is None else _folder(work)
        kept = bottom(storage)
        # Its kinds with another layout are no folders to put something else into.
        if type(kept) is FileStorage:
            own = Path(kept.url)
            return cls(kept, given or own, own / OUTPUTS)
        # On a cluster the local stores are each host's own.
        beside = _beside(Path(local_root), checkpoint_uuid) if one_host and given is None else None
        return cls(kept, given or beside, Path(IN_CHECKPOINT))

    @property
    def shares_files(self) -> bool:
        """Whether executors can read files that the driver writes."""
        return self.folder is not None

    def spark_folder(self) -> Path:
        """Say where Spark's own checkpoint is; a coded error if there is no place for it."""
        if self.folder is None:
            raise FeedError(
                "MP521",
                "a stream on a cluster needs a place for Spark's own checkpoint",
                expected="a work folder that driver and executors share, or start(spark_checkpoint=...)",
                found=f"neither, with the checkpoint {shown_url(self.storage.url)}",
                hint='MyProgram.on(spark, checkpoint="s3://...", durability=Durability(work="/shared/recs")); '
                "spark_checkpoint takes any address that Spark itself can write to",
            )
        return self.folder / SPARK

    def has_spark_checkpoint(self) -> bool:
        """Say whether Spark has noted there which batches it planned."""
        return self.folder is not None and (self.folder / SPARK / "offsets").exists()

    def checkpoint_area(self, temporary: str) -> CheckpointArea:
        """Return the replies that wait in the checkpoint's storage."""
        return CheckpointArea(self.storage, (self.folder or Path(temporary)) / HANDED_OVER)


@dataclass(frozen=True, slots=True)
class ReplyFrames:
    """Makes DataFrames of files of replies, for sinks that want them."""

    spark: SparkSession
    work: WorkRoot

    def __call__(self, files: Sequence[Path]) -> DataFrame:
        """Return the rows of all files."""
        small = sum(path.stat().st_size for path in files) <= LOCAL_BYTES_MAX
        if small or not self.work.shares_files:
            return frame_of(self.spark, pa.concat_tables([pq.ParquetFile(path).read() for path in files]))
        return self.spark.read.parquet(*(str(path) for path in files))

    @property
    def tasks(self) -> Spread | None:
        """What calls functions in tasks, if these can read what the driver reads."""
        return self._spread if self.work.shares_files else None

    def _spread(self, functions: Sequence[Callable[[], str]]) -> list[str]:
        def call(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                numbers = batch.column(0).to_pylist()
                told = [functions[number]() for number in numbers]
                yield pa.RecordBatch.from_pydict({"number": numbers, "told": told})

        numbers = self.spark.range(0, len(functions), 1, len(functions))
        rows = numbers.mapInArrow(call, "number long, told string").collect()
        return [row.told for row in sorted(rows, key=lambda row: int(row.number))]


def _beside(local_root: Path, checkpoint_uuid: str) -> Path:
    """Get the work folder beside the local root, and not in it: whoever removes copies must not lose a stream's place.

    What an earlier version has put into the local root is brought here once.
    """
    folder = local_root.with_name(f"{local_root.name}-{WORK}") / checkpoint_uuid
    before = local_root / WORK / checkpoint_uuid
    if local_root.parent.exists() and local_root.parent.stat().st_mode & stat.S_IWOTH:
        own_folder(folder.parent)
    if before.is_dir() and not folder.exists():
        make_private(folder.parent)
        before.rename(folder)
    return folder


def _folder(work: str | Path) -> Path:
    text = str(work).removeprefix("file://")
    if not text or "://" in text or "\0" in text:
        raise FeedError(
            "MP522",
            "the work root is not a folder",
            expected="a path that driver and executors share, as /shared/recs",
            found=ascii(shown_url(str(work))[:120]),
            hint="start(spark_checkpoint=...) takes an address that Spark itself can write to",
        )
    return Path(text).absolute()

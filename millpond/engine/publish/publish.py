"""Publication: after the commit, sinks get the files of an epoch by token; doing it twice changes nothing.

A start asks every sink what it holds of the last epoch, and gives it what it lacks, before anything else. What a sink
is and what it may rely on stands in `millpond/sinks/protocol.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.records.manifest import Genesis, Manifest, OutputFile
from millpond.crashpoints import crashpoint
from millpond.engine.plan import SinkPlan
from millpond.engine.publish.replies import IN_CHECKPOINT, staging_mark
from millpond.engine.publish.staging import CheckpointArea, FolderArea, StagingArea, notes_of
from millpond.errors import MillpondError, RowError, StorageError
from millpond.sinks.parquet import ParquetSink
from millpond.sinks.protocol import Frames, Sink, Spread, Staged, StagedFile
from millpond.sinks.tokens import Token
from millpond.storage.addresses import scrubbed


@dataclass(frozen=True, slots=True)
class _Parcel:
    """The files of an epoch for a sink, which wait in one place."""

    token: Token
    root: str
    outputs: tuple[OutputFile, ...]
    sink: Sink | None
    """None if the job has no sink for them any more: then they stay where they are."""

    def tokens(self) -> list[Token]:
        return [self.token.of_file(output.file.name) for output in self.outputs]


class Publisher:
    """Gives the outputs of committed epochs to the sinks of a job.

    `kept` are files that wait in the checkpoint's storage, if any do. If this is Spark, `frames` makes DataFrames, and
    `tasks` calls functions in tasks.
    """

    def __init__(
        self,
        genesis: Genesis,
        sinks: Mapping[str, tuple[Sink, SinkPlan]],
        kept: CheckpointArea | None = None,
        frames: Frames | None = None,
        tasks: Spread | None = None,
    ) -> None:
        self._genesis = genesis
        self._sinks = sinks
        self._kept = kept
        self._frames = frames
        self._tasks = tasks
        self._held: frozenset[Token] = frozenset()

    def begin(self, checkpoint: Checkpoint) -> None:
        """Let every sink recover, and publish what is missing of the last epoch: once at a start, before all else."""
        self.recover(checkpoint.head)
        checkpoint.finish_publication(self.publish)

    def recover(self, head: Manifest | None) -> None:
        """Let every sink put right what a crash left, and tell what it holds of the last epoch."""
        parcels = [] if head is None else self._parcels(head)
        asked = {(parcel.token.sink, id(parcel.sink)) for parcel in parcels}
        for name, (sink, plan) in self._sinks.items():
            if (name, id(sink)) not in asked:
                parcels.append(_Parcel(self._token(name, 0 if head is None else head.epoch), plan.root, (), sink))
        held: set[Token] = set()
        for parcel in parcels:
            if parcel.sink is not None:
                with _blaming(parcel.sink, parcel.token):
                    held.update(parcel.sink.recover(parcel.token, parcel.tokens()))
        self._held = frozenset(held)

    def publish(self, manifest: Manifest) -> None:
        """Publish an epoch's outputs; what is out already is left as it is."""
        for parcel in self._parcels(manifest):
            if parcel.sink is not None:
                area, notes = self._area(parcel.root), notes_of(manifest, parcel.token.sink, parcel.outputs)
                if not any(area.is_published(one, parcel.outputs) for one in notes):
                    self._give(parcel, parcel.sink, area, notes[0])
                area.forget(parcel.outputs)
        # A try on other partitions stages other files than the one that won.
        for root in sorted({plan.root for _, plan in self._sinks.values()}):
            self._area(root).sweep(manifest)

    def _give(self, parcel: _Parcel, sink: Sink, area: StagingArea, note: str) -> None:
        waiting = [
            output for output, token in zip(parcel.outputs, parcel.tokens(), strict=True) if token not in self._held
        ]
        if waiting:
            if not area.check_there(note, waiting):
                return
            with area.taken(waiting) as paths, _blaming(sink, parcel.token):
                files = zip(waiting, paths, strict=True)
                staged = (StagedFile(parcel.token.of_file(one.file.name), path, one.rows) for one, path in files)
                sink.publish(parcel.token, Staged(tuple(staged), self._frames, self._tasks))
            crashpoint("publish.given")
        area.note(note, parcel.outputs, told_by_sink=sink.describe().exactly_once)

    def _parcels(self, manifest: Manifest) -> list[_Parcel]:
        by_sink: dict[tuple[str, str], list[OutputFile]] = {}
        for output in manifest.outputs:
            _check_mark(output, manifest)
            by_sink.setdefault((output.sink, output.root), []).append(output)
        return [
            _Parcel(self._token(name, manifest.epoch), root, tuple(outputs), self._sink_of(outputs[0]))
            for (name, root), outputs in by_sink.items()
        ]

    def _sink_of(self, output: OutputFile) -> Sink | None:
        sink, plan = self._sinks.get(output.sink, (None, None))
        if output.visible and (plan is None or plan.root != output.root):
            # Where the epoch said, also if the feed has another sink by now.
            return ParquetSink(output.root)
        return sink

    def _token(self, sink: str, epoch: int) -> Token:
        return Token(self._genesis.uuid, self._genesis.lineage, sink, epoch)

    def _area(self, root: str) -> StagingArea:
        if root != IN_CHECKPOINT:
            return FolderArea(Path(root))
        assert self._kept is not None, root
        return self._kept


def _check_mark(output: OutputFile, manifest: Manifest) -> None:
    """Refuse a file that no task of this epoch can have staged: it would be moved and deleted."""
    mark = staging_mark(manifest.epoch, manifest.checkpoint)
    if not output.file.name.startswith(f"{mark}-"):
        raise StorageError(
            "MP305",
            "this can't be the name of a stored file",
            expected=f"a file of replies of epoch {manifest.epoch}, whose name begins with {mark}",
            found=ascii(output.file.name[:80]),
            hint="names come from Millpond itself; a manifest that names such a file did not",
        )


@contextmanager
def _blaming(sink: Sink, token: Token) -> Iterator[None]:
    """Say which sink raised, and that nothing is lost by it."""
    try:
        yield
    except MillpondError:
        raise
    except Exception as error:
        raise RowError(
            "MP605",
            f"{scrubbed(sink.describe().place)} raised {type(error).__name__} on epoch {token.epoch}",
            expected=f"that `{token.sink}` can be published",
            found=scrubbed(str(error))[:300],
            hint="the epoch is committed; the next start hands it over again before anything else",
        ) from error

"""What a job refuses before anything runs: feeds that do not go together, and sources that changed."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.commit.refusal import sources_changed
from millpond.engine.plan import Order
from millpond.errors import EpochError, FeedError
from millpond.spark.feeds.feeds import Feed, feed_name


def check_feeds(feeds: Sequence[Feed], *, streaming: bool) -> None:
    """Refuse feeds of both kinds, or of the other kind than is run, or without a common order."""
    if not feeds:
        raise FeedError("MP508", "the job has no feeds", expected='job.feed("entry", df) before start or run')
    kinds = {feed.frame.isStreaming for feed in feeds}
    if kinds != {streaming}:
        raise FeedError(
            "MP509",
            "streaming and batch DataFrames can't be mixed, nor one kind run as the other",
            expected="streaming DataFrames for start(), all of one kind for run()",
            found=", ".join(f"{f.plan.name}: {'streaming' if f.frame.isStreaming else 'batch'}" for f in feeds),
            hint="read all sources with spark.readStream, or all with spark.read",
        )
    ordered = {feed.plan.order is Order.COLUMN for feed in feeds}
    if len(ordered) > 1:
        raise FeedError(
            "MP515",
            "some feeds have order_by and some have not, so their rows have no common order",
            expected="order_by for every feed, or for none",
            found=", ".join(f"{f.plan.name}: {f.plan.order.value}" for f in feeds),
            hint="name an order column of the same kind for each feed",
        )


def check_sources(checkpoint: Checkpoint, sources: tuple[str, ...], *, adopt: bool, resumes: bool) -> None:
    """Refuse changed feeds before Spark trips over them with an error of its own, if it `resumes` its checkpoint."""
    last = None if checkpoint.head is None else checkpoint.head.stream
    if last is None or last.sources == sources or not resumes:
        return
    if not adopt:
        raise sources_changed(last, sources)
    if {feed_name(source) for source in last.sources} != {feed_name(source) for source in sources}:
        raise EpochError(
            "MP437",
            "Spark can't go on from its own checkpoint with more or fewer feeds",
            expected=", ".join(last.sources),
            found=", ".join(sources),
            hint="give start() a new spark_checkpoint= besides adopt=True: all sources are read from their start",
        )

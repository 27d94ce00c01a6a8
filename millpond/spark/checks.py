"""What a job refuses before anything runs: feeds that do not go together, and options that make no sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from millpond.checkpoint.commit.checkpoint import Checkpoint, Offer
from millpond.checkpoint.commit.machine import Head, Reason
from millpond.checkpoint.commit.refusal import refusal
from millpond.checkpoint.retention.retention import Keep
from millpond.engine.local_state.opening import Restore
from millpond.engine.plan import Order
from millpond.errors import EpochError, FeedError
from millpond.spark.feeds.feeds import Feed, feed_name

MEMORY_MB = 1024
"""About what a task may hold of rows and the state that they touch, unless told otherwise."""


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


def check_rows(small_epoch: int) -> int:
    """Return a number of rows, if it is one."""
    if type(small_epoch) is not int or small_epoch < 0:
        raise FeedError("MP518", "small_epoch is a number of rows", expected="0 or more", found=repr(small_epoch)[:40])
    return small_epoch


def check_steps(steps: int) -> int:
    """Return a number of steps, if it is one."""
    if type(steps) is not int or steps < 1:
        raise FeedError(
            "MP519", "steps is how many steps an epoch may take", expected="1 or more", found=repr(steps)[:40]
        )
    return steps


def check_memory(memory_mb: int | None) -> int:
    """Return how many bytes a task may hold, 0 for any number, if it is a number of megabytes."""
    if memory_mb is None:
        return 0
    if type(memory_mb) is not int or memory_mb < 1:
        raise FeedError(
            "MP525",
            "memory_mb is how much a task may hold, in megabytes",
            expected="1 or more, or None for all at once",
            found=repr(memory_mb)[:40],
        )
    return memory_mb * 1_000_000


def check_keep(keep: Keep | None) -> Keep:
    """Return which epochs stay, if that is what was given; None keeps all."""
    if keep is None:
        return Keep.all()
    if not isinstance(keep, Keep):
        raise FeedError(
            "MP524",
            "keep says which epochs stay readable",
            expected="Keep(last=100), Keep(last=100, every=1000), or None for all",
            found=repr(keep)[:80],
            hint="from millpond import Keep",
        )
    return keep


def check_restore(restore: Restore) -> Restore:
    """Return a way to restore state, if it is one."""
    if restore not in get_args(Restore):
        raise FeedError(
            "MP523",
            "no such way to restore state",
            expected=" or ".join(f'"{choice}"' for choice in get_args(Restore)),
            found=repr(restore)[:40],
        )
    return restore


def check_sources(checkpoint: Checkpoint, sources: tuple[str, ...], *, adopt: bool, resumes: bool) -> None:
    """Refuse changed feeds before Spark trips over them with an error of its own, if it `resumes` its checkpoint."""
    last = None if checkpoint.head is None else checkpoint.head.stream
    if last is None or last.sources == sources or not resumes:
        return
    if not adopt:
        raise refusal(Reason.SOURCES_CHANGED, Head(checkpoint.epoch, last), Offer(last.query, 0, sources))
    if {feed_name(source) for source in last.sources} != {feed_name(source) for source in sources}:
        raise EpochError(
            "MP437",
            "Spark can't go on from its own checkpoint with more or fewer feeds",
            expected=", ".join(last.sources),
            found=", ".join(sources),
            hint="give start() a new spark_checkpoint= besides adopt=True: all sources are read from their start",
        )

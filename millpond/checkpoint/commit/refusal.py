"""The words for an offer that the commit protocol turns down."""

from __future__ import annotations

from millpond.checkpoint.commit.machine import Head, Reason
from millpond.checkpoint.records.offers import Batch, Offer, sources_of
from millpond.checkpoint.records.work import JobAborted
from millpond.errors import EpochError

_ADOPT = "adopt=True goes on from here and takes this batch as new data"


def refusal(reason: Reason, head: Head, offer: Offer | None, abort: JobAborted | None = None) -> EpochError:
    """Return the coded error for a `Fail`; `abort` is the last one, if the job was aborted."""
    if reason is Reason.FENCED:
        return _fenced(head)
    assert offer is not None, reason
    last = head.stream
    found = str(offer)
    if reason is Reason.CHECKPOINT_LOST:
        return EpochError(
            "MP403",
            "the stream is ahead of Millpond's checkpoint, which is empty",
            expected="batch 0, the first one of a fresh checkpoint",
            found=found,
            hint=f"point to the checkpoint that belongs to this stream, or begin both again; {_ADOPT}, "
            "without the state of the batches before",
        )
    if reason is Reason.RETRIES_SPENT:
        return EpochError(
            "MP409",
            f"the job of epoch {head.epoch + 1} was aborted too often",
            found=found if abort is None else f"{found}: {abort.summary}: {abort.found or 'no reason given'}",
            hint="nothing of this epoch was committed; a new start tries it again",
        )
    if reason is Reason.UNFINISHED:
        assert head.unfinished is not None
        return EpochError(
            "MP416",
            "another batch came before all messages of the last one were processed",
            expected=f"{head.unfinished} again, which goes on",
            found=found,
            hint="this is a fault of Millpond, please report it; nothing was committed",
        )
    assert last is not None, reason
    return _does_not_follow(reason, last, offer)


def _does_not_follow(reason: Reason, last: Batch, offer: Offer) -> EpochError:
    expected = f"batch {last.number + 1} of query {last.query}"
    found = str(offer)
    if reason is Reason.QUERY_CHANGED:
        return EpochError(
            "MP404",
            "this batch comes from another query than the last one",
            expected=expected,
            found=found,
            hint="Spark's checkpoint was lost or replaced: put it back, since a new query reads its sources from their "
            f"start; {_ADOPT}",
        )
    if reason is Reason.BATCHES_SKIPPED:
        return EpochError(
            "MP405",
            "batches are missing between the last one and this one",
            expected=expected,
            found=found,
            hint="Millpond's checkpoint was put back to an older state: put Spark's back too; "
            f"{_ADOPT}, without the batches in between",
        )
    if reason is Reason.BATCH_WENT_BACK:
        return EpochError(
            "MP406",
            "this batch was applied already",
            expected=expected,
            found=found,
            hint="Spark's checkpoint was put back to an older state: put Millpond's back too; "
            f"{_ADOPT}, so that its rows count twice",
        )
    assert reason is Reason.SOURCES_CHANGED, reason
    return sources_changed(last, sources_of(offer))


def sources_changed(last: Offer, sources: tuple[str, ...]) -> EpochError:
    """Return the error for feeds that are not those of the last rows."""
    return EpochError(
        "MP407",
        "the feeds are not those of the last batch",
        expected=", ".join(sources_of(last)),
        found=", ".join(sources),
        hint=f"give the job the same feeds in the same order; {_ADOPT}",
    )


def _fenced(head: Head) -> EpochError:
    return EpochError(
        "MP408",
        f"another driver committed epoch {head.epoch + 1}",
        expected="one driver at a time on a checkpoint",
        found="a manifest that this driver did not write",
        hint="this driver stops and has changed nothing; make sure that only one job uses this checkpoint",
    )

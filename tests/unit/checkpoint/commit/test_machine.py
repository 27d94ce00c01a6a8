from __future__ import annotations

import pytest

from millpond.checkpoint.commit.machine import (
    Aborted,
    Compute,
    Computed,
    Done,
    Fail,
    Head,
    MachineState,
    ManifestPut,
    Offered,
    Phase,
    Publish,
    Published,
    PutManifest,
    Reason,
    Resumed,
    WriteSegment,
    advance,
    judge,
    start,
    step,
    validate,
)
from millpond.checkpoint.commit.refusal import refusal
from millpond.checkpoint.records.offers import Batch, BoundedRun, Rescaled
from millpond.storage.contract import PutOutcome

FEEDS = ("rate", "recommend")
LAST = Batch("q", 5, FEEDS)
HEAD = Head(7, LAST, ("june",))


def drive(state, *events):
    """Play events and return the state with the actions of the last one."""
    actions = ()
    for event in events:
        state, actions = step(state, event)
    return state, actions


def batch(number, query="q", sources=FEEDS):
    return Batch(query, number, sources)


@pytest.mark.parametrize(
    ("head", "offer", "reason"),
    [
        (Head(), batch(0), Reason.FIRST_BATCH),
        (Head(), batch(3), Reason.CHECKPOINT_LOST),
        (Head(), BoundedRun("june", FEEDS), Reason.NEW),
        (HEAD, batch(5), Reason.COMMITTED_BEFORE),
        (HEAD, batch(6), Reason.NEXT_BATCH),
        (HEAD, batch(4), Reason.BATCH_WENT_BACK),
        (HEAD, batch(7), Reason.BATCHES_SKIPPED),
        (HEAD, batch(6, query="other"), Reason.QUERY_CHANGED),
        (HEAD, batch(0, query="other"), Reason.QUERY_CHANGED),
        (HEAD, batch(5, query="other"), Reason.QUERY_CHANGED),
        (HEAD, batch(6, sources=("rate",)), Reason.SOURCES_CHANGED),
        (HEAD, batch(6, sources=("recommend", "rate")), Reason.SOURCES_CHANGED),
        (HEAD, batch(6, sources=(*FEEDS, "more")), Reason.SOURCES_CHANGED),
        (HEAD, BoundedRun("june", FEEDS), Reason.COMMITTED_BEFORE),
        (HEAD, BoundedRun("july", FEEDS), Reason.NEW),
        (Head(1, None, ("june",)), batch(0), Reason.FIRST_BATCH),
        (Head(1, None, ("june",)), batch(1), Reason.CHECKPOINT_LOST),
        (Head(instances=8), Rescaled(16), Reason.NEW),
        (Head(7, LAST, instances=8), Rescaled(4), Reason.NEW),
        (Head(7, LAST, instances=8), Rescaled(8), Reason.COMMITTED_BEFORE),
        (Head(7, LAST, (), LAST, 8), Rescaled(16), Reason.UNFINISHED),
        (Head(7, LAST, (), LAST, 8), Rescaled(8), Reason.UNFINISHED),
    ],
)
def test_an_offer_is_judged_by_the_last_batch_and_the_runs_before(head, offer, reason):
    assert judge(head, offer) is reason


def test_an_epoch_goes_from_offer_to_publication():
    state = start(Head())
    state, actions = step(state, Offered(batch(0)))
    assert actions == (Compute(1),)
    state, actions = step(state, Computed())
    assert actions == (WriteSegment(1), PutManifest(1))
    state, actions = step(state, ManifestPut(PutOutcome.WON))
    assert actions == (Publish(1),)
    state, actions = step(state, Published())
    assert actions == (Done(Reason.COMMITTED),)
    assert state == MachineState(Phase.IDLE, Head(1, batch(0)), head_published=True)


def test_after_a_start_the_head_is_published_before_anything_else():
    state, actions = step(start(HEAD), Offered(batch(6)))
    assert actions == (Publish(7),)
    _, actions = step(state, Published())
    assert actions == (Compute(8),)


def test_a_batch_offered_again_after_a_crash_is_published_and_not_computed():
    _, actions = drive(start(HEAD), Offered(LAST), Published())
    assert actions == (Done(Reason.COMMITTED_BEFORE),)


def test_a_start_without_a_batch_publishes_the_head_once():
    state, actions = step(start(HEAD), Resumed())
    assert actions == (Publish(7),)
    state, actions = step(state, Published())
    assert actions == (Done(Reason.RESUMED),)
    assert step(state, Resumed())[1] == (Done(Reason.RESUMED),)


def test_a_fresh_checkpoint_has_nothing_to_resume():
    assert step(start(Head()), Resumed())[1] == (Done(Reason.RESUMED),)


def test_an_aborted_job_is_tried_again_as_often_as_allowed():
    state, _ = step(start(Head()), Offered(batch(0), retries=2))
    for _ in range(2):
        state, actions = step(state, Aborted())
        assert actions == (Compute(1),)
    state, actions = step(state, Aborted())
    assert actions == (Fail(Reason.RETRIES_SPENT),)
    assert step(state, Offered(batch(0)))[1] == (Compute(1),)


def test_the_loser_of_a_commit_stops_for_good():
    state, actions = drive(start(Head()), Offered(batch(0)), Computed(), ManifestPut(PutOutcome.PRESENT))
    assert actions == (Fail(Reason.FENCED),)
    assert step(state, Offered(batch(0)))[1] == (Fail(Reason.FENCED),)
    assert step(state, Resumed())[1] == (Fail(Reason.FENCED),)


@pytest.mark.parametrize("offer", [batch(9), batch(1), batch(0, query="other"), batch(6, sources=())])
def test_what_does_not_follow_is_refused_and_can_be_adopted(offer):
    state, _ = drive(start(HEAD), Resumed(), Published())
    refused, actions = step(state, Offered(offer))
    assert isinstance(actions[0], Fail)
    assert refused == state
    assert step(state, Offered(offer, adopt=True))[1] == (Compute(8),)


def test_adopting_never_applies_the_last_batch_again():
    _, actions = drive(start(HEAD), Offered(LAST, adopt=True), Published())
    assert actions == (Done(Reason.COMMITTED_BEFORE),)


def test_a_bounded_run_keeps_the_place_of_the_stream():
    state, _ = drive(start(HEAD), Offered(BoundedRun("july")), Published(), Computed())
    state, _ = drive(state, ManifestPut(PutOutcome.WON), Published())
    assert state.head == Head(8, LAST, ("june", "july"))
    assert step(state, Offered(LAST))[1] == (Done(Reason.COMMITTED_BEFORE),)
    assert step(state, Offered(batch(6)))[1] == (Compute(9),)


def test_a_rescale_keeps_the_place_of_the_stream_and_the_runs():
    rescaled = advance(Head(7, LAST, ("june",), instances=8), Rescaled(3))
    assert rescaled == Head(8, LAST, ("june",), instances=3)
    assert judge(rescaled, batch(6)) is Reason.NEXT_BATCH
    assert judge(rescaled, batch(5)) is Reason.COMMITTED_BEFORE
    assert advance(rescaled, batch(6)).instances == 3


def test_a_rescale_is_never_adopted_nor_applied_while_messages_are_left():
    state = start(Head(7, LAST, (), LAST, 8))
    state, actions = drive(state, Offered(Rescaled(4), adopt=True), Published())
    assert actions == (Fail(Reason.UNFINISHED),)
    error = refusal(Reason.UNFINISHED, state.head, Rescaled(4))
    assert (error.code, error.found) == ("MP416", "a rescale to 4 instances")


def test_an_event_that_nothing_waits_for_tells_its_story():
    state, _ = step(start(Head()), Offered(batch(0)))
    with pytest.raises(AssertionError, match=r"(?s)IDLE <- Offered.*COMPUTING <- Published"):
        step(state, Published())


@pytest.mark.parametrize(
    "bad",
    [
        MachineState(Phase.COMPUTING, HEAD, head_published=True),
        MachineState(Phase.PUBLISHING, HEAD, head_published=True),
        MachineState(Phase.COMMITTING, HEAD, head_published=False),
        MachineState(Phase.IDLE, Head(0, LAST), head_published=True),
    ],
)
def test_a_bad_state_is_seen(bad):
    with pytest.raises(AssertionError, match="bad state"):
        validate(bad)


@pytest.mark.parametrize(
    ("reason", "offer", "code", "said"),
    [
        (Reason.QUERY_CHANGED, batch(0, query="other"), "MP404", "batch 0 of query other"),
        (Reason.BATCHES_SKIPPED, batch(9), "MP405", "batch 6 of query q"),
        (Reason.BATCH_WENT_BACK, batch(2), "MP406", "count twice"),
        (Reason.SOURCES_CHANGED, batch(6, sources=("rate",)), "MP407", "rate, recommend"),
        (Reason.CHECKPOINT_LOST, batch(3), "MP403", "batch 0"),
    ],
)
def test_a_refusal_says_what_was_expected_and_how_to_go_on(reason, offer, code, said):
    head = Head() if reason is Reason.CHECKPOINT_LOST else HEAD
    error = refusal(reason, head, offer)
    assert error.code == code
    assert said in str(error)
    assert "adopt=True" in str(error)


def test_other_failures_have_their_codes():
    assert refusal(Reason.FENCED, HEAD, None).code == "MP408"
    assert refusal(Reason.RETRIES_SPENT, Head(), batch(0)).code == "MP409"

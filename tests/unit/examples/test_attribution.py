"""The example of an interval join in ordinary state: plain Python, the core over columns and simulated runs agree."""

from __future__ import annotations

import pytest

from examples.attribution import DISORDER, ROWS, SEED, Attribution, main, make_events, play
from millpond.program.semantics.epoch_time import us_of
from millpond.testing import assert_equals_plain, at, event_time, simulate
from millpond.windowing.joins import IntervalJoin

REACH_US = Attribution.REACH.total_seconds() * 1_000_000


def by_brute_force(events):
    shown = [(moment, user, number) for moment, name, (user, number) in events if name == "show"]
    clicked = [(moment, user, number) for moment, name, (user, number) in events if name == "click"]
    pairs = {
        (ad, click)
        for at, user, ad in shown
        for then, who, click in clicked
        if who == user and at <= then < at + Attribution.REACH
    }
    return pairs, {ad for _, _, ad in shown} - {ad for ad, _ in pairs}


def by_columns(events):
    """The same through the core, a batch and a watermark for every 50 rows."""
    join = IntervalJoin(0, int(REACH_US) - 1, how="left")
    users = sorted({user for _, _, (user, _) in events})
    pairs, lone, latest = set(), set(), 0
    for begin in range(0, len(events), 50):
        sides = {}
        for side, name in (("left", "show"), ("right", "click")):
            mine = [event for event in events[begin : begin + 50] if event[1] == name]
            codes = [users.index(user) for _, _, (user, _) in mine]
            sides[side] = (codes, [us_of(event[0]) for event in mine], {"n": [event[2][1] for event in mine]})
        late = join.add(**sides)
        assert not any(len(each.rows) for each in late)
        latest = max([latest, *(us_of(event[0]) for event in events[begin : begin + 50])])
        watermark = latest - us_of_length(DISORDER) if begin + 50 < len(events) else 2**61
        found = join.close(watermark)
        for left, right, matched in zip(
            found.left["n"].tolist(), found.right.get("n", found.keys).tolist(), found.matched.tolist(), strict=True
        ):
            if matched:
                pairs.add((left, right))
            else:
                lone.add(left)
    return pairs, lone


def us_of_length(length):
    return int(length.total_seconds()) * 1_000_000


def test_pairs_are_those_of_brute_force_and_of_the_core():
    events = make_events(SEED, ROWS)
    pairs, fired = play(Attribution(), events)
    told = [one.reply for one in fired if one.reply is not None]
    wanted = by_brute_force(events)
    assert (set(pairs), set(told)) == wanted
    assert (len(pairs), len(told)) == tuple(map(len, wanted)), "each once"
    assert by_columns(events) == wanted
    assert events != sorted(events), "rows come out of order"


def test_nothing_stays_that_can_find_no_partner():
    program, events = Attribution(), make_events(SEED, ROWS)
    play(program, events)
    with event_time(events[-1][0]):
        held = list(program.interests.values())
    assert held
    assert not any(interest.shown or interest.paired for interest in held)
    assert max(len(interest.clicked) for interest in held) < 40, "clicks go with the advertisements around them"


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [4, 23])
def test_a_simulated_run_tells_the_same_however_it_is_cut(epochs):
    events = make_events(SEED + 1, 160)
    rows = [at(moment, (name, *arguments)) for moment, name, arguments in events]
    run = simulate(Attribution, rows, epochs=epochs, disorder=DISORDER, close=True)
    pairs, lone = by_brute_force(events)
    assert sorted(pair for reply in run.replies for pair in reply) == sorted(pairs)
    assert sorted(one.reply for one in run.fired if one.reply is not None) == sorted(lone)
    assert_equals_plain(run)


def test_the_example_runs(capsys):
    assert main() == 0
    assert "without a click" in capsys.readouterr().out

"""The example of an interval join in ordinary state: plain Python, brute force and simulated runs agree."""

from __future__ import annotations

import pytest

from examples.attribution import DISORDER, ROWS, SEED, Attribution, main, make_events, play
from millpond.testing import assert_equals_plain, at, event_time, simulate


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


def test_pairs_are_those_of_brute_force():
    events = make_events(SEED, ROWS)
    pairs, fired = play(Attribution(), events)
    told = [one.reply for one in fired if one.reply is not None]
    wanted = by_brute_force(events)
    assert (set(pairs), set(told)) == wanted
    assert (len(pairs), len(told)) == tuple(map(len, wanted)), "each once"
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

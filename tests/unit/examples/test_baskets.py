"""The example of abandoned baskets: plain Python against a loop without timers, and a simulated run against both."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples.baskets import CLICKS, SEED, Baskets, main, make_clicks, play
from millpond.engine.simulated import Simulated
from millpond.testing import epoch_time
from tests.programs.timed import fired_by
from tests.sizes import compile_once


def by_hand(clicks):
    """Who is written to, and how many items wait: by looking at all customers after every click."""
    baskets, silent, reminded, letters = {}, {}, {}, []
    for now, name, (customer, *item) in clicks:
        if name == "put":
            baskets.setdefault(customer, []).extend(item)
            silent[customer] = now + timedelta(minutes=30)
        else:
            baskets.pop(customer, None)
            silent.pop(customer, None)
        for at, who in sorted((at, who) for who, at in silent.items() if at <= now):
            del silent[who]
            if who not in reminded or now >= reminded[who] + timedelta(days=1):
                reminded[who] = now
                letters.append((at, who, len(baskets.get(who, []))))
    return letters


def test_letters_are_those_that_looking_at_everybody_gives():
    clicks = make_clicks(SEED, CLICKS)
    fired = play(Baskets(), clicks)
    letters = [(one.at, one.key, int(one.reply.split()[0])) for one in fired if one.reply]
    assert letters == by_hand(clicks)
    assert len(letters) > 50
    assert len(fired) > len(letters), "some were reminded within a day"


@pytest.mark.slow
def test_a_simulated_run_writes_the_same_letters(tmp_path):
    clicks = make_clicks(SEED + 1, 60)
    simulated = Simulated(compile_once(Baskets), tmp_path, 2, key_groups=8)
    # A click an epoch, as in the plain run: timers fire at the ends of epochs.
    for now, name, arguments in clicks:
        with epoch_time(now):
            simulated.epoch([(name, arguments)])
    told = fired_by(simulated, ("remind",))["remind"]
    assert told == [one.reply for one in play(Baskets(), clicks)]
    assert any(told)


def test_the_example_runs(capsys):
    assert main() == 0
    assert "letters were written" in capsys.readouterr().out

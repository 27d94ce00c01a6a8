"""How the way of an entry point follows from what was found in its way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond import Map, Partial, Partitioned, Program, Value, entry
from millpond.compiler.compile import draft_program
from millpond.compiler.draft import Draft
from millpond.compiler.front.source import read_sources
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.compiler.plan.way_choice import Ways


class Bank(Program):
    accounts = Partitioned(Map[str, int])
    names = Partitioned(Map[str, str])
    seen = Partial(Value[int])

    @entry
    def move(self, a: str, b: str) -> None:
        self.accounts[a] = self.accounts.get(b, 0)

    @entry(relaxed=True)
    def loose(self, a: str) -> None:
        self.accounts[a] = 1

    @entry(way="gathered")
    def asked(self, a: str) -> str:
        return self.names.get(a, "")

    @entry
    def count(self) -> None:
        self.seen.set(self.seen.get(0) + 1)


def obstacle(bars: Bars, summary: str = "it is so") -> ObstacleError:
    return ObstacleError("MP199", summary, bars=bars, found="this", hint="write it otherwise")


def drafted(**met: ObstacleError) -> Draft:
    """A draft as a pass leaves it that met obstacles."""
    return replace(draft_program(Bank, read_sources), obstacles=met)


def after(**met: ObstacleError) -> Ways:
    ways = Ways(())
    ways.slow_down(drafted(**met))
    return ways


@pytest.mark.parametrize("bars", [Bars.ORDER, Bars.CUT])
def test_what_lacks_an_order_or_a_cut_runs_gathered(bars):
    ways = after(move=obstacle(bars))
    assert dict(ways.gathered) == {"move": "it is so"}
    assert ways.sequence == {}


@pytest.mark.parametrize("bars", [Bars.KEYS, Bars.SIGHT])
def test_what_lacks_keys_or_sight_runs_in_sequence(bars):
    ways = after(move=obstacle(bars))
    assert dict(ways.gathered) == {}
    assert (ways.sequence, ways.faster) == ({"move": "it is so"}, {"move": "write it otherwise"})


def test_what_has_no_key_is_not_gathered():
    assert after(count=obstacle(Bars.CUT)).sequence == {"count": "it is so"}


def test_a_relaxed_entry_point_is_not_gathered_for_a_cut():
    assert after(loose=obstacle(Bars.CUT)).sequence == {"loose": "it is so"}


def test_each_entry_point_has_its_own_reason():
    ways = after(move=obstacle(Bars.SIGHT, "one"), loose=obstacle(Bars.SIGHT, "other"))
    assert ways.sequence == {"move": "one", "loose": "other"}


def test_of_those_that_disagree_one_that_asks_for_no_way_runs_in_sequence():
    met = obstacle(Bars.ORDER)
    ways = after(move=met, asked=met)
    assert dict(ways.gathered) == {"move": "it is so", "asked": "it is so"}
    ways.slow_down(drafted(move=met, asked=met))
    assert ways.sequence == {"move": "it is so"}
    assert dict(ways.gathered) == {}


def test_a_way_that_is_asked_for_and_can_not_be_is_refused_with_both_reasons():
    ways = after(asked=obstacle(Bars.ORDER, "no order"))
    with pytest.raises(ObstacleError) as refused:
        ways.slow_down(drafted(asked=obstacle(Bars.KEYS, "no keys")))
    assert refused.value.summary == "no order"
    assert "It can't run gathered: MP199 no keys" in str(refused.value.found)


def test_what_stays_uncut_for_its_rows_is_gathered_from_the_start_and_after_others_left():
    ways = Ways(("move",))
    ways.slow_down(drafted(count=obstacle(Bars.KEYS)))
    assert list(ways.gathered) == ["move"]
    ways.slow_down(drafted(move=obstacle(Bars.KEYS)))
    assert list(ways.sequence) == ["count", "move"]
    assert dict(ways.gathered) == {}


def test_a_pass_goes_through_all_methods_and_keeps_what_each_met():
    def work(method):
        if method.name != "move":
            raise obstacle(Bars.CUT, method.name)
        return replace(method, aborts=True)

    draft = draft_program(Bank, read_sources).each(work)
    assert {name: met.summary for name, met in draft.obstacles.items()} == {
        name: name for name in ("loose", "asked", "count")
    }
    assert [method.name for method in draft.methods if method.aborts] == ["move"]

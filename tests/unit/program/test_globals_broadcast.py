"""Changes through each() reach every instance of partial state, in input order, and are undone with their row."""

from __future__ import annotations

import pytest

from millpond import Counter, Map, MillpondError, Partial, Partitioned, Program, Set, Value, each, entry
from millpond.testing import assert_equals_plain, simulate


class Rules(Program):
    rules = Partial(Map[str, int], on_scale_out="copy")
    flags = Partial(Set[str], on_scale_out="copy")
    model = Partial(Value[list[float]], on_scale_out="copy")
    spent = Partitioned(Map[str, int])

    @entry
    def rule(self, name: str, limit: int | None = None) -> None:
        if limit is None:
            each(self.rules).pop(name, None)
        else:
            each(self.rules)[name] = limit

    @entry
    def drop(self, name: str) -> None:
        del each(self.rules)[name]

    @entry
    def flag(self, name: str, on: bool) -> None:
        if on:
            each(self.flags).add(name)
        else:
            each(self.flags).discard(name)
        if name == "refused":
            self.abort("no such flag")

    @entry
    def learn(self, weights: list[float]) -> None:
        each(self.model).set(weights)
        weights.append(0.0)

    @entry
    def pay(self, user: str, kind: str, cents: int) -> str:
        limit = self.rules.get(kind, 100)
        self.spent[user] = self.spent.get(user, 0) + cents
        if "freeze" in self.flags:
            return "frozen"
        weights = self.model.get([1.0])
        return f"{'alarm' if self.spent[user] * weights[0] > limit else 'ok'} {len(weights)}"


ROWS = [
    ("pay", "ann", "card", 60),
    ("rule", "card", 50),
    *(("pay", user, "card", 40) for user in ("ann", "bob", "cid", "dee")),
    ("rule", "card"),
    ("drop", "card"),
    ("pay", "bob", "card", 20),
    ("flag", "freeze", True),
    ("flag", "refused", True),
    *(("pay", user, "card", 1) for user in ("ann", "bob", "cid")),
    ("flag", "freeze", False),
    ("learn", [9.0]),
    *(("pay", user, "card", 1) for user in ("ann", "bob", "cid")),
]


def first(instances):
    assert all(one == instances[0] for one in instances)
    return instances[0]


@pytest.mark.parametrize("partitions", [1, 3, 7])
@pytest.mark.parametrize("epochs", [1, 4, len(ROWS)])
def test_every_instance_has_what_was_told_to_all(epochs, partitions):
    run = simulate(Rules, ROWS, epochs=epochs, partitions=partitions, on_bad_row="skip")
    assert_equals_plain(run, merge={"rules": first, "model": first})
    assert len(run.state["model"]) == 8
    assert all(model == [9.0, 0.0] for model in run.state["model"])
    assert all(flags == set() for flags in run.state["flags"])


def test_rows_without_a_broadcast_stay_in_steps():
    shown = Rules.explain()
    assert "entry pay: exact, changes state" in shown
    assert "entry rule: exact, in sequence" in shown
    assert "each() changes all instances" in shown


class Asked(Program):
    counts = Partial(Counter[str])

    @entry(way="gathered")
    def reset(self, name: str) -> None:
        each(self.counts).pop(name, 0)


def test_a_faster_way_can_be_asked_for():
    with pytest.raises(MillpondError, match="MP141"):
        Asked.explain()

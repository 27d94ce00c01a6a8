"""A social graph: following touches two people, and friends in common touch a whole list.

Both ends of an edge tell of it: `torn` has the edges that only one end knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.program import Partitioned, ProgramBase, entry
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.set import Set
from tests.fuzz.dice import Dice
from tests.fuzz.rows import Row
from tests.fuzz.transactions.worlds.picking import Picker

PEOPLE = ("ada", "ben", "cleo", "dan", "eve", "finn", "gina", "hugo", "iris", "jon")


class Social(ProgramBase):
    """Who follows whom, kept at both ends."""

    following = Partitioned(Map[str, set[str]])
    followers = Partitioned(Map[str, list[str]])
    blocked = Partitioned(Set[tuple[str, str]])
    mutual = Partitioned(Counter[str])

    def _both(self, who: str, whom: str, change: int) -> None:
        if who in self.following.get(whom, set()):
            self.mutual[who] += change
            self.mutual[whom] += change

    @entry
    def follow(self, who: str, whom: str) -> bool:
        """Follow somebody; answers whether that is new."""
        followed = self.following.setdefault(who, set())
        if whom in followed:
            return False
        followed.add(whom)
        self.followers.setdefault(whom, []).append(who)
        if who == whom:
            self.abort("that is you")
        if (whom, who) in self.blocked:
            self.abort(f"{whom} does not want that")
        self._both(who, whom, 1)
        return True

    @entry
    def unfollow(self, who: str, whom: str) -> int:
        """Follow somebody no more; raises if they did not, after it has begun."""
        self._both(who, whom, -1)
        self.following[who].remove(whom)
        self.followers[whom].remove(who)
        return len(self.followers[whom])

    @entry
    def block(self, who: str, whom: str) -> bool:
        """Block somebody, who follows no more; answers whether they did."""
        self.blocked.add((who, whom))
        try:
            self.followers[who].remove(whom)
        except (KeyError, ValueError):
            return False
        self._both(whom, who, -1)
        self.following[whom].discard(who)
        return True

    @entry
    def invite(self, who: str, friends: list[str]) -> int:
        """Make friends follow each other; those who are blocked are left out, more than two undo it all."""
        left_out = 0
        for friend in friends:
            if friend == who:
                continue
            if (friend, who) in self.blocked or (who, friend) in self.blocked:
                left_out += 1
                if left_out > 2:
                    self.abort("too many do not want that")
                continue
            for one, other in ((who, friend), (friend, who)):
                if other not in self.following.setdefault(one, set()):
                    self.following[one].add(other)
                    self.followers.setdefault(other, []).append(one)
                    self._both(one, other, 1)
        return self.mutual[who]

    @entry
    def common(self, people: list[str]) -> list[str]:
        """Answer whom all of them follow; raises if nobody is asked about."""
        return sorted(set.intersection(*[self.following.get(person, set()) for person in people]))

    @entry
    def known(self, who: str) -> tuple[int, int, int]:
        """Answer how many somebody follows, is followed by, and both."""
        return len(self.following.get(who, ())), len(self.followers.get(who, ())), self.mutual[who]


def make_rows(seed: int, count: int) -> list[Row]:
    """Rows over a few people."""
    dice = Dice(seed)
    pick = Picker(dice, PEOPLE[: dice.one((3, 6, len(PEOPLE)))])
    rows: list[Row] = []
    for _ in range(count):
        row: tuple[str, tuple[Any, ...]] = dice.weighted(
            [
                (9, ("follow", pick.pair())),
                (3, ("unfollow", pick.pair())),
                (1, ("block", pick.pair())),
                (3, ("invite", (pick.one(), pick.several()))),
                (1, ("common", (pick.several(3),))),
                (1, ("known", (pick.one(),))),
            ]
        )
        rows.append(row)
    return rows


def torn(state: Mapping[str, Mapping[Any, Any]]) -> list[tuple[str, str]]:
    """Edges that one end knows and the other does not."""
    out = {(who, whom) for who, followed in state["following"].items() for whom in followed}
    back = {(who, whom) for whom, followers in state["followers"].items() for who in followers}
    return sorted(out ^ back)

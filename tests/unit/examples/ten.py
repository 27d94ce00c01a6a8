"""The ten programs of the world: rows for them, what they must answer, and what must hold of their state."""

from __future__ import annotations

import enum
import math
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from examples import (
    bank,
    kmeans,
    leaderboard,
    rate_limiter,
    regression,
    search_index,
    sessions,
    shop,
    social_feed,
    trending,
)
from examples.rows import Row
from millpond import Aborted, Program
from millpond.engine.sequential import Sequential
from millpond.state.local.storekey import element_of, group_of, unit_of
from tests.fuzz.oracle import shown
from tests.sizes import compile_once

Copies = list[dict[Any, Any]]
"""An element's entries, by instance where it has several."""

State = dict[str, Copies]


class Truth(enum.Enum):
    """What a run must equal."""

    PLAIN = "plain Python"
    STEPS = "the reference interpreter of steps, epoch by epoch"
    COPIES = "the reference interpreter, row by row, with as many copies of partial state"


@dataclass(frozen=True, slots=True)
class Case:
    """A program, its rows, what its runs must equal, and a check of its domain."""

    module: ModuleType
    program: type[Program]
    truth: Truth
    holds: Callable[[Sequence[Row], Mapping[int, Any], State], None]

    @property
    def name(self) -> str:
        return self.program.__name__

    def rows(self, seed: int, count: int) -> list[Row]:
        made: list[Row] = self.module.make_rows(seed, count)
        return made


@dataclass(frozen=True, slots=True)
class Expected:
    """Replies of rows that give one, as text; and the state, in bytes."""

    replies: dict[int, str]
    state: dict[bytes, bytes]


def expect(case: Case, epochs: Sequence[Sequence[Row]], key_groups: int, instances: int) -> Expected:
    """Ask the oracle of a program; the bytes of the state are always the reference interpreter's."""
    sequential = Sequential(compile_once(case.program), key_groups, instances)
    rows = [row for epoch in epochs for row in epoch]
    if case.truth is Truth.STEPS:
        said = [reply for epoch in epochs for reply in sequential.epoch(epoch)]
        return Expected(told(case, rows, said), sequential.state())
    replies = told(case, rows, (answer(sequential.call, name, *arguments) for name, arguments in rows))
    return Expected(plain_replies(case, rows) if case.truth is Truth.PLAIN else replies, sequential.state())


def plain_replies(case: Case, rows: Sequence[Row]) -> dict[int, str]:
    """The replies of the class as plain Python."""
    plain = case.program()
    return told(case, rows, (answer(getattr(plain, name), *arguments) for name, arguments in rows))


def answer(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call replies; nothing if it refuses the row."""
    try:
        return call(*arguments)
    except Aborted:
        return None


def told(case: Case, rows: Sequence[Row], said: Iterable[Any]) -> dict[int, str]:
    """Replies as a sink shows them, each turned into text before the next row may change it."""
    points = case.program.entries()
    return {
        number: shown(reply, points[name].returns)
        for number, ((name, _), reply) in enumerate(zip(rows, said, strict=True))
        if points[name].replies
    }


def decoded(program: type[Program], held: Mapping[bytes, bytes]) -> State:
    """The state of a checkpoint as Python objects."""
    state: State = {}
    for index, (name, element) in enumerate(program.elements().items()):
        copies: dict[int, dict[Any, Any]] = {}
        for key, value in held.items():
            if element_of(key) == index:
                copy = copies.setdefault(group_of(key) if element.partial else 0, {})
                copy[element.type.keys.decode(unit_of(key))] = element.type.values.decode(value)
        state[name] = list(copies.values()) or [{}]
    return state


def added(copies: Copies) -> dict[Any, Tally[Any]]:
    """The copies of a partial matrix of whole numbers, added up."""
    whole: dict[Any, Tally[Any]] = {}
    for copy in copies:
        for line, cells in copy.items():
            whole.setdefault(line, Tally()).update(cells)
    return whole


def money_is_neither_lost_nor_made(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    (balances,) = state["balances"]
    assert sum(balances.values()) == sum(arguments[1] for name, arguments in rows if name == "deposit")
    assert min(balances.values()) >= 0


def every_visit_that_is_over_is_counted_once(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    over = sum(rows[number][0] == "click" and reply is not None for number, reply in replies.items())
    (habits,) = state["habits"]
    assert over > 0
    assert sum(known.visits for known in habits.values()) == over
    assert sum(sum(minutes.values()) for minutes in added(state["lengths"]).values()) == over


def stock_is_what_was_delivered_and_not_sold(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    (stock,), (bought,) = state["stock"], state["bought"]
    assert min(stock.values()) >= 0
    for item, left in stock.items():
        delivered = sum(arguments[1] for name, arguments in rows if name == "deliver" and arguments[0] == item)
        assert delivered == left + sum(shelf.get(item, 0) for shelf in bought.values())


def every_point_moved_one_centroid(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    moved = [cluster.points for copy in state["model"] for clusters in copy.values() for cluster in clusters]
    assert sum(moved) == sum(name == "learn" for name, _ in rows)
    assert {reply for number, reply in replies.items() if rows[number][0] == "assign"} <= {0, 1, 2}


def a_coupon_makes_buying_likelier(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    trained = [copy for copy in state["weights"] if copy]
    assert sum(copy["coupon"] for copy in trained) > sum(copy["night"] for copy in trained)
    assert all(0 < reply < 1 for reply in replies.values())
    assert all(math.isfinite(weight) for copy in trained for weight in copy.values())


def every_word_is_counted_and_the_commonest_comes_first(
    rows: Sequence[Row], replies: Mapping[int, Any], state: State
) -> None:
    words = [word for name, arguments in rows if name == "post" for word in arguments[0].lower().split()]
    kept = [word for word in words if word not in trending.Trending.STOP]
    assert sum(sum(hour.values()) for hour in added(state["counts"]).values()) == len(kept)
    for reply in replies.values():
        counts = [tuple(pair.values())[1] for pair in reply]
        assert counts == sorted(counts, reverse=True)


def no_client_spends_more_than_its_bucket_and_time_give(
    rows: Sequence[Row], replies: Mapping[int, Any], state: State
) -> None:
    spent: Tally[str] = Tally()
    last = 0
    for number, (name, arguments) in enumerate(rows):
        if name == "allow":
            client, tokens, last = arguments
            spent[client] += tokens * bool(replies[number])
    best = max(rate_limiter.OFFERED.values(), key=lambda plan: plan.burst)
    assert max(spent.values()) * 1000 <= best.burst * 1000 + best.per_second * last
    (buckets,) = state["buckets"]
    assert min(bucket.thousandths for bucket in buckets.values()) >= 0


def postings_are_the_words_of_the_texts(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    (texts,), (postings,) = state["texts"], state["postings"]
    wanted: dict[str, set[int]] = {}
    for document, text in texts.items():
        for word in text.split():
            wanted.setdefault(word, set()).add(document)
    assert {word: having for word, having in postings.items() if having} == wanted


def ranks_and_leaders_follow_from_the_scores(rows: Sequence[Row], replies: Mapping[int, Any], state: State) -> None:
    (scores,), (top,) = state["scores"], state["top"]
    players = added(state["players"])
    for game, leaders in top.items():
        here = [(points, player) for (of, player), points in scores.items() if of == game]
        assert leaders == sorted(here, key=leaderboard.place)[: leaderboard.Leaderboard.SHOWN]
        assert +players[game] == Tally(points for points, _ in here)


def feeds_are_short_in_order_and_without_own_posts(
    rows: Sequence[Row], replies: Mapping[int, Any], state: State
) -> None:
    (feeds,) = state["feeds"]
    assert feeds
    for person, feed in feeds.items():
        numbers = [post.number for post in feed]
        assert numbers == sorted(set(numbers))
        assert len(feed) <= social_feed.SocialFeed.LENGTH
        assert person not in {post.author for post in feed}


CASES = (
    Case(bank, bank.Bank, Truth.PLAIN, money_is_neither_lost_nor_made),
    Case(sessions, sessions.Sessions, Truth.PLAIN, every_visit_that_is_over_is_counted_once),
    Case(shop, shop.Shop, Truth.PLAIN, stock_is_what_was_delivered_and_not_sold),
    Case(kmeans, kmeans.KMeans, Truth.COPIES, every_point_moved_one_centroid),
    Case(regression, regression.Regression, Truth.COPIES, a_coupon_makes_buying_likelier),
    Case(trending, trending.Trending, Truth.PLAIN, every_word_is_counted_and_the_commonest_comes_first),
    Case(rate_limiter, rate_limiter.RateLimiter, Truth.PLAIN, no_client_spends_more_than_its_bucket_and_time_give),
    Case(search_index, search_index.SearchIndex, Truth.STEPS, postings_are_the_words_of_the_texts),
    Case(leaderboard, leaderboard.Leaderboard, Truth.PLAIN, ranks_and_leaders_follow_from_the_scores),
    Case(social_feed, social_feed.SocialFeed, Truth.PLAIN, feeds_are_short_in_order_and_without_own_posts),
)

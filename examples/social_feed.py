"""A social feed: a post goes to the feeds of all followers, in a loop over a list of keys.

The loop's turns do not depend on each other, so a post is one step with as many messages as there are followers, and
every feed has its posts in the order in which they were written. All entry points are exact.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Counter, Map, Partitioned, Program, entry

SEED = 377
ROWS = 4_000
PEOPLE = ("ada", "ben", "cleo", "dan", "eve", "finn", "gina", "hugo", "iris", "jon", "kim", "lea", "max", "nora")


@dataclass(frozen=True)
class Post:
    """What somebody wrote."""

    number: int
    author: str
    text: str


class SocialFeed(Program):
    """Knows who follows whom, and keeps a feed for everybody."""

    followers = Partitioned(Map[str, list[str]])
    feeds = Partitioned(Map[str, list[Post]])
    unread = Partitioned(Counter[str])

    LENGTH = 8

    @entry
    def follow(self, person: str, author: str) -> bool:
        """Let a person follow an author; answers whether that is new."""
        if person == author:
            return False
        followers = self.followers.setdefault(author, [])
        if person in followers:
            return False
        followers.append(person)
        return True

    @entry
    def unfollow(self, person: str, author: str) -> bool:
        """Let a person follow an author no more; answers whether they did."""
        followers = self.followers.get(author, [])
        if person not in followers:
            return False
        followers.remove(person)
        return True

    @entry
    def post(self, number: int, author: str, text: str) -> int:
        """Write to all followers; answers how many there are."""
        followers = self.followers.get(author, [])
        for follower in followers:
            feed = self.feeds.setdefault(follower, [])
            feed.append(Post(number, author, text))
            del feed[: -self.LENGTH]
            self.unread[follower] += 1
        return len(followers)

    @entry
    def read(self, person: str) -> list[Post]:
        """Answer with a person's feed, the newest post first; all of it is read then."""
        feed = self.feeds.get(person, [])
        self.unread[person] = 0
        return feed[::-1]

    @entry
    def waiting(self, person: str) -> int:
        """Answer how many posts a person has not read."""
        return self.unread[person]


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up posts and readers; the first people have the most followers."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        person, author = chance.choice(PEOPLE), hot(chance, PEOPLE)
        (kind,) = chance.choices(("follow", "unfollow", "post", "read", "waiting"), (4, 1, 5, 2, 1))
        arguments = {
            "follow": (person, author),
            "unfollow": (person, author),
            "post": (number, author, f"note {chance.randrange(1000)}"),
            "read": (person,),
            "waiting": (person,),
        }
        rows.append((kind, arguments[kind]))
    return rows


def main() -> int:
    """Run the class as plain Python, and show a feed."""
    network = SocialFeed()
    play(network, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    reader = max(PEOPLE, key=lambda person: network.unread[person])
    title = f"The feed of {reader}, {network.waiting(reader)} posts unread"
    table = Table("post", "author", "text", title=title, title_justify="left")
    for post in network.read(reader):
        table.add_row(str(post.number), post.author, post.text)
    console.print(table)
    famous = max(network.followers, key=lambda author: len(network.followers[author]))
    console.print(f"Most followers: {famous}, {len(network.followers[famous])}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Top-k trending words: the words that are written more often in this hour than in the hour before.

Words are counted where their text is, in a partial matrix of words and hours, and added up when somebody asks: a gain
is the matrix times a vector. Sums of whole numbers do not depend on how the texts were shared out, so all entry points
are exact, and equal plain Python.
"""

from __future__ import annotations

import random
import sys

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Matrix, Partial, Program, each, entry, merged, merges

SEED = 55
ROWS = 3_000
HOURS = 6
WORDS = ("mill", "pond", "water", "wheel", "grain", "bread", "heron", "reed", "sluice", "weir", "flour", "frost")


class Trending(Program):
    """Counts words by hour."""

    counts = Partial(Matrix[str, int, int], by="column")  # word x hour

    COUNT = 3
    STOP = frozenset(("the", "a", "and", "of"))

    @entry
    def post(self, text: str, hour: int) -> None:
        """Count the words of a text."""
        for word in text.lower().split():
            if word not in self.STOP:
                self.counts[word, hour] += 1

    @entry
    def top(self, hour: int) -> list[tuple[str, int]]:
        """Answer with the commonest words of an hour, the commonest first."""
        return merged(each(self.counts).column(hour), merges.top_k(self.COUNT))

    @entry
    def trending(self, hour: int) -> list[tuple[str, int]]:
        """Answer with the words that gained most since the hour before, and what they gained."""
        gains = merged(each(self.counts).multiply({hour: 1, hour - 1: -1}), merges.add_vectors)
        gained = sorted((-gain, word) for word, gain in gains.items() if gain > 0)
        return [(word, int(-gain)) for gain, word in gained[: self.COUNT]]


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up texts; every hour has a favourite word of its own."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        hour = number * HOURS // count
        words = [*WORDS[hour:], *WORDS[:hour]]
        kind = chance.random()
        if kind < 0.9:
            written = [chance.choice((hot(chance, words), "the", "The", "of")) for _ in range(chance.randrange(8))]
            rows.append(("post", (" ".join(written), hour)))
        else:
            rows.append(("top" if kind < 0.95 else "trending", (chance.randrange(hour + 1),)))
    return rows


def main() -> int:
    """Run the class as plain Python, and show what each hour was about."""
    program = Trending()
    play(program, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    table = Table("hour", "commonest", "trending", title="Words", title_justify="left")
    for hour in range(HOURS):
        commonest = ", ".join(f"{word} {count}" for word, count in program.top(hour))
        gained = ", ".join(f"{word} +{gain}" for word, gain in program.trending(hour))
        table.add_row(str(hour), commonest, gained)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

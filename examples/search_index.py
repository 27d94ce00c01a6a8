"""An inverted index with search: documents come, change and go; a search finds those that have all its words.

Adding a document visits the postings of its words in a loop whose turns do not depend on each other: exact. A search
walks from word to word with the documents found so far, so its loop is a cycle of the graph and the entry point is
*relaxed*: a document that is added while a search is on its way may be seen under one word and not under another.
"""

from __future__ import annotations

import random
import sys

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Map, Partitioned, Program, entry

SEED = 144
ROWS = 2_000
WORDS = ("mill", "pond", "water", "wheel", "grain", "bread", "heron", "reed", "sluice", "weir", "flour", "frost")
ASKED = ("mill", "mill pond", "water wheel grain", "frost heron", "turbine")


def words_of(text: str) -> list[str]:
    """List the different words of a text, in order."""
    return sorted(set(text.lower().split()))


class SearchIndex(Program):
    """Finds documents by their words."""

    texts = Partitioned(Map[int, str])
    postings = Partitioned(Map[str, set[int]])

    @entry
    def add(self, document: int, text: str) -> bool:
        """Take a document, or a new text of it; answers whether it is new."""
        before = self.texts.get(document)
        self.texts[document] = text
        old, new = words_of(before or ""), words_of(text)
        for word in sorted({*old, *new}):
            if word in new:
                self.postings.setdefault(word, set()).add(document)
            else:
                self.postings[word].discard(document)
        return before is None

    @entry
    def remove(self, document: int) -> bool:
        """Forget a document; answers whether it was there."""
        text = self.texts.pop(document, None)
        for word in words_of(text or ""):
            self.postings[word].discard(document)
        return text is not None

    @entry
    def count(self, word: str) -> int:
        """Answer how many documents have a word."""
        return len(self.postings.get(word, set()))

    @entry(relaxed=True)
    def search(self, query: str) -> list[int]:
        """Answer with the documents that have all words of a query."""
        found: set[int] | None = None
        for word in words_of(query):
            having = self.postings.get(word, set())
            found = set(having) if found is None else found & having
            if not found:
                break
        return sorted(found or ())


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up documents that come, change and go, and searches for some words."""
    chance = random.Random(seed)
    documents = range(60)
    rows: list[Row] = []
    for _ in range(count):
        document = hot(chance, documents)
        words = " ".join(hot(chance, WORDS) for _ in range(chance.randrange(1, 9)))
        (kind,) = chance.choices(("add", "remove", "count", "search"), (8, 1, 1, 4))
        arguments = {
            "add": (document, words),
            "remove": (document,),
            "count": (hot(chance, WORDS),),
            "search": (" ".join(words.split()[:3]),),
        }
        rows.append((kind, arguments[kind]))
    return rows


def main() -> int:
    """Run the index as plain Python, and show some searches."""
    index = SearchIndex()
    play(index, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    table = Table("query", "documents", title=f"Searches in {len(index.texts)} documents", title_justify="left")
    for query in ASKED:
        table.add_row(query, ", ".join(map(str, index.search(query))) or "none")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

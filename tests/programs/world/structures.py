"""Caches, queues, counters that merge, tries and an index of texts, each in one class."""

from __future__ import annotations

import contextlib
import heapq
from collections import Counter as Tally
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict

from millpond import Counter, Map, Partitioned, Program, Value, entry


class LruCache(Program):
    """A cache of bounded size by tenant, the oldest use goes first."""

    caches = Partitioned(Map[str, OrderedDict[str, str]])
    hits = Partitioned(Counter[tuple[str, bool]])
    size = 2

    @entry
    def get(self, tenant: str, key: str) -> str | None:
        cache = self.caches.get(tenant)
        if cache is None or key not in cache:
            self.hits[tenant, False] += 1
            return None
        cache.move_to_end(key)
        self.hits[tenant, True] += 1
        return cache[key]

    @entry
    def put(self, tenant: str, key: str, value: str) -> str | None:
        cache = self.caches.setdefault(tenant, OrderedDict())
        cache[key] = value
        cache.move_to_end(key)
        if len(cache) > self.size:
            gone, _ = cache.popitem(last=False)
            return gone
        return None


class JobQueue(Program):
    """A priority queue as a heap, with leases that come back when they expire."""

    heaps = Partitioned(Map[str, list[tuple[int, int, str]]])
    leases = Partitioned(Map[str, dict[str, tuple[int, int]]])
    numbers = Partitioned(Value[int])

    @entry
    def push(self, queue: str, job: str, priority: int = 5) -> int:
        number = self.numbers.get(0) + 1
        self.numbers.set(number)
        heapq.heappush(self.heaps.setdefault(queue, []), (priority, number, job))
        return number

    @entry
    def lease(self, queue: str, now: int, seconds: int = 10) -> str | None:
        leases = self.leases.setdefault(queue, {})
        heap = self.heaps.setdefault(queue, [])
        for job, (until, priority) in sorted(leases.items()):
            if until <= now:
                del leases[job]
                heapq.heappush(heap, (priority, 0, job))
        if not heap:
            return None
        priority, _, job = heapq.heappop(heap)
        leases[job] = (now + seconds, priority)
        return job

    @entry
    def done(self, queue: str, job: str) -> bool:
        return self.leases.get(queue, {}).pop(job, None) is not None


class GCounter(Program):
    """Counters as CRDTs: increments by replica, merged by the largest; a pair of them goes up and down."""

    ups = Partitioned(Map[str, dict[str, int]])
    downs = Partitioned(Map[str, dict[str, int]])

    @entry
    def change(self, name: str, replica: str, by: int) -> int:
        side = self.ups if by >= 0 else self.downs
        counts = side.setdefault(name, {})
        counts[replica] = counts.get(replica, 0) + abs(by)
        return self._value(name)

    @entry
    def merge(self, name: str, ups: dict[str, int], downs: dict[str, int]) -> int:
        for side, seen in ((self.ups, ups), (self.downs, downs)):
            own = side.setdefault(name, {})
            side[name] = {replica: max(own.get(replica, 0), seen.get(replica, 0)) for replica in sorted({*own, *seen})}
        return self._value(name)

    def _value(self, name: str) -> int:
        return sum(self.ups.get(name, {}).values()) - sum(self.downs.get(name, {}).values())


@dataclass
class Node:
    children: dict[str, Node] = field(default_factory=dict)
    count: int = 0


class Autocomplete(Program):
    """A trie by language: words that begin with a prefix, most used first."""

    tries = Partitioned(Map[str, Node])

    @entry
    def learn(self, language: str, word: str) -> int:
        node = self.tries.setdefault(language, Node())
        for letter in word:
            node = node.children.setdefault(letter, Node())
        node.count += 1
        return node.count

    @entry
    def complete(self, language: str, prefix: str, most: int = 3) -> list[str]:
        node = self.tries.get(language)
        for letter in prefix:
            if node is None:
                return []
            node = node.children.get(letter)
        if node is None:
            return []

        def words(at: Node, so_far: str) -> Iterator[tuple[int, str]]:
            if at.count:
                yield -at.count, so_far
            for letter, child in at.children.items():
                yield from words(child, so_far + letter)

        return [word for _, word in sorted(words(node, prefix))[:most]]


class Hit(TypedDict):
    doc: str
    score: float


class TextIndex(Program):
    """An inverted index with scores, documents that are replaced and deleted."""

    postings = Partitioned(Map[str, dict[str, int]])
    documents = Partitioned(Map[str, list[str]])

    @entry
    def put(self, doc: str, text: str) -> int:
        self.delete(doc)
        words = text.lower().split()
        for word, count in Tally(words).items():
            self.postings.setdefault(word, {})[doc] = count
        self.documents[doc] = words
        return len(set(words))

    @entry
    def delete(self, doc: str) -> bool:
        words = self.documents.pop(doc, None)
        for word in sorted(set(words or ())):
            with contextlib.suppress(KeyError):
                del self.postings[word][doc]
                if not self.postings[word]:
                    del self.postings[word]
        return words is not None

    @entry
    def search(self, query: str, most: int = 5) -> list[str]:
        scores: defaultdict[str, float] = defaultdict(float)
        total = len(self.documents)
        for word in sorted(set(query.lower().split())):
            found = self.postings.get(word)
            if not found:
                continue
            for doc, count in found.items():
                scores[doc] += count * (total / len(found))
        hits: list[Hit] = [{"doc": doc, "score": score} for doc, score in scores.items()]
        hits.sort(key=lambda hit: (-hit["score"], hit["doc"]))
        return [f"{hit['doc']} {hit['score']:.1f}" for hit in hits[:most]]


CASES: list[tuple[type[Program], list[tuple[Any, ...]]]] = [
    (
        LruCache,
        [
            ("put", "t", "a", "1"),
            ("put", "t", "b", "2"),
            ("get", "t", "a"),
            ("put", "t", "c", "3"),
            ("get", "t", "b"),
            ("get", "u", "b"),
            ("put", "t", "a", "4"),
            ("put", "t", "d", "5"),
            ("get", "t", "a"),
        ],
    ),
    (
        JobQueue,
        [
            ("push", "q", "slow", 9),
            ("push", "q", "fast", 1),
            ("lease", "q", 0),
            ("lease", "q", 1),
            ("lease", "q", 2),
            ("done", "q", "slow"),
            ("done", "q", "slow"),
            ("push", "r", "other"),
            ("lease", "q", 20),
            ("lease", "q", 21),
        ],
    ),
    (
        GCounter,
        [
            ("change", "likes", "eu", 3),
            ("change", "likes", "us", -1),
            ("merge", "likes", {"us": 4, "eu": 1}, {"us": 2}),
            ("change", "likes", "us", 1),
            ("merge", "other", {}, {}),
        ],
    ),
    (
        Autocomplete,
        [
            *(("learn", "en", word) for word in ("pond", "pony", "pond", "mill", "po")),
            ("complete", "en", "po"),
            ("complete", "en", "x"),
            ("complete", "fr", "po"),
            ("learn", "fr", "pont"),
            ("complete", "fr", "p", 1),
        ],
    ),
    (
        TextIndex,
        [
            ("put", "d1", "the mill by the pond"),
            ("put", "d2", "a pond"),
            ("search", "the pond"),
            ("put", "d1", "a wheel"),
            ("search", "the pond a"),
            ("delete", "d2"),
            ("delete", "d9"),
            ("search", "pond wheel"),
        ],
    ),
]

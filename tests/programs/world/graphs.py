"""Walks over what is stored: trees, graphs, caches, games, documents."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from millpond import List, Map, Partitioned, Program, Set, Value, entry


class UnionFind(Program):
    """Components of a growing graph, with path compression."""

    parents = Partitioned(Map[int, int])
    sizes = Partitioned(Map[int, int])

    def find(self, node: int) -> int:
        root = node
        while (parent := self.parents.get(root, root)) != root:
            root = parent
        while node != root:
            following = self.parents.get(node, node)
            self.parents[node] = root
            node = following
        return root

    @entry
    def union(self, a: int, b: int) -> bool:
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self.sizes.get(a, 1) < self.sizes.get(b, 1):
            a, b = b, a
        self.parents[b] = a
        self.sizes[a] = self.sizes.get(a, 1) + self.sizes.pop(b, 1)
        return True

    @entry
    def together(self, a: int, b: int) -> bool:
        return self.find(a) == self.find(b)


class Organisation(Program):
    """Who reports to whom: recursion, a generator, a closure."""

    reports = Partitioned(Map[str, list[str]])
    salaries = Partitioned(Map[str, int])

    @entry
    def hire(self, name: str, boss: str | None, salary: int) -> None:
        self.salaries[name] = salary
        if boss is not None:
            self.reports.setdefault(boss, []).append(name)

    def below(self, name: str) -> Iterator[str]:
        for report in self.reports.get(name, []):
            yield report
            yield from self.below(report)

    @entry
    def cost(self, name: str) -> int:
        return self.salaries[name] + sum(self.cost(report) for report in self.reports.get(name, []))

    @entry
    def raise_all(self, name: str, percent: int) -> int:
        def raised(salary: int) -> int:
            return salary + salary * percent // 100

        changed = 0
        for person in self.below(name):
            self.salaries[person] = raised(self.salaries[person])
            changed += 1
        return changed


class Friends(Program):
    """Breadth-first search over stored friendships."""

    friends = Partitioned(Map[str, set[str]])

    @entry
    def befriend(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            self.friends.setdefault(one, set()).add(other)

    @entry
    def distance(self, a: str, b: str) -> int | None:
        queue, seen = deque([(a, 0)]), {a}
        while queue:
            person, steps = queue.popleft()
            if person == b:
                return steps
            for friend in sorted(self.friends.get(person, set())):
                if friend not in seen:
                    seen.add(friend)
                    queue.append((friend, steps + 1))
        return None


class LruCache(Program):
    """A cache of three entries in one value, hits and misses."""

    cache = Partitioned(Value[OrderedDict[str, str]])
    hits = Partitioned(Value[int])

    @entry
    def get(self, key: str) -> str | None:
        cache = self.cache.get(OrderedDict())
        if key not in cache:
            return None
        cache.move_to_end(key)
        self.cache.set(cache)
        self.hits.set(self.hits.get(0) + 1)
        return cache[key]

    @entry
    def put(self, key: str, value: str) -> int:
        cache = self.cache.get(OrderedDict())
        cache[key] = value
        cache.move_to_end(key)
        if len(cache) > 3:
            cache.popitem(last=False)
        self.cache.set(cache)
        return len(cache)


class Linked(Program):
    """A linked list in a map: pointers that a loop follows."""

    head = Partitioned(Value[int])
    following = Partitioned(Map[int, int])
    values = Partitioned(Map[int, str])

    @entry
    def push(self, node: int, value: str) -> None:
        first = self.head.get(0)
        self.values[node] = value
        self.following[node] = first
        self.head.set(node)

    @entry
    def reverse(self) -> list[str]:
        found: list[str] = []
        node = self.head.get(0)
        before = 0
        while node:
            found.append(self.values[node])
            after = self.following[node]
            self.following[node] = before
            before, node = node, after
        self.head.set(before)
        return found


@dataclass
class Player:
    name: str
    rating: float = 1000.0
    games: int = 0


class Elo(Program):
    """Ratings of two players at once, a leader board over all of them."""

    players = Partitioned(Map[str, Player])

    def _player(self, name: str) -> Player:
        if name not in self.players:
            self.players[name] = Player(name)
        return self.players[name]

    @entry
    def game(self, winner: str, loser: str) -> float:
        won, lost = self._player(winner), self._player(loser)
        expected = 1 / (1 + 10 ** ((lost.rating - won.rating) / 400))
        gain = 32 * (1 - expected)
        won.rating += gain
        lost.rating -= gain
        for player in (won, lost):
            player.games += 1
        return won.rating

    @entry
    def leaders(self, most: int = 2) -> list[str]:
        board = sorted(self.players.values(), key=lambda player: (-player.rating, player.name))
        return [player.name for player in board[:most]]


class Documents(Program):
    """A document store: paths in nested JSON, a walk by a table of functions."""

    documents = Partitioned(Map[str, dict[str, str]])
    log = Partitioned(List[str])

    @entry
    def patch(self, name: str, change: str) -> str:
        try:
            fields = json.loads(change)
        except json.JSONDecodeError as error:
            self.log.append(f"{name}: {error.msg}")
            return "bad"
        document = self.documents.setdefault(name, {})
        actions: dict[bool, Callable[[str, object], None]] = {
            True: lambda field, _: document.pop(field, None) and None,
            False: lambda field, value: document.__setitem__(field, str(value)),
        }
        for field_name, value in sorted(fields.items()):
            actions[value is None](field_name, value)
        return json.dumps(document, sort_keys=True)


class Scheduler(Program):
    """Tasks with dependencies: done ones release others."""

    needs = Partitioned(Map[str, list[str]])
    needed_by = Partitioned(Map[str, list[str]])
    done = Partitioned(Set[str])

    @entry
    def add(self, task: str, needs: list[str]) -> bool:
        self.needs[task] = [need for need in needs if need not in self.done]
        for need in self.needs[task]:
            self.needed_by.setdefault(need, []).append(task)
        return not self.needs[task]

    @entry
    def finish(self, task: str) -> list[str]:
        self.done.add(task)
        released = []
        for other in self.needed_by.pop(task, []):
            left = self.needs[other]
            left.remove(task)
            if not left:
                released.append(other)
        return released


@dataclass
class Node:
    children: dict[str, Node] = field(default_factory=dict)
    words: int = 0


class Trie(Program):
    """A recursive dataclass: completion by prefix."""

    roots = Partitioned(Map[str, Node])

    @entry
    def add(self, word: str) -> int:
        node = self.roots.setdefault(word[0], Node())
        for letter in word[1:]:
            node = node.children.setdefault(letter, Node())
        node.words += 1
        return node.words

    @entry
    def complete(self, prefix: str) -> list[str]:
        node = self.roots.get(prefix[0])
        for letter in prefix[1:]:
            if node is None:
                return []
            node = node.children.get(letter)
        found: list[str] = []

        def walk(at: Node, word: str) -> None:
            if at.words:
                found.append(word)
            for letter, child in sorted(at.children.items()):
                walk(child, word + letter)

        if node is not None:
            walk(node, prefix)
        return found


class Life(Program):
    """Conway's cells: one row moves the whole board."""

    alive = Partitioned(Set[tuple[int, int]])

    @entry
    def born(self, x: int, y: int) -> None:
        self.alive.add((x, y))

    @entry
    def turn(self) -> int:
        neighbours: dict[tuple[int, int], int] = {}
        for x, y in self.alive:
            for dx in (-1, 0, 1):
                for dy in (-1, 0, 1):
                    if dx or dy:
                        cell = (x + dx, y + dy)
                        neighbours[cell] = neighbours.get(cell, 0) + 1
        before = set(self.alive)
        for cell in sorted(before):
            if neighbours.get(cell, 0) not in (2, 3):
                self.alive.discard(cell)
        for cell, count in sorted(neighbours.items()):
            if count == 3 and cell not in before:
                self.alive.add(cell)
        return len(self.alive)


CASES = [
    (
        UnionFind,
        [
            ("union", 1, 2),
            ("union", 3, 4),
            ("together", 1, 4),
            ("union", 2, 3),
            ("together", 1, 4),
            ("union", 1, 4),
            ("union", 5, 5),
        ],
    ),
    (
        Organisation,
        [
            ("hire", "ann", None, 100),
            ("hire", "bob", "ann", 50),
            ("hire", "cid", "bob", 30),
            ("cost", "ann"),
            ("raise_all", "ann", 10),
            ("cost", "bob"),
        ],
    ),
    (
        Friends,
        [
            ("befriend", "a", "b"),
            ("befriend", "b", "c"),
            ("distance", "a", "c"),
            ("distance", "a", "x"),
            ("befriend", "a", "c"),
            ("distance", "a", "c"),
        ],
    ),
    (
        LruCache,
        [
            ("put", "a", "1"),
            ("put", "b", "2"),
            ("put", "c", "3"),
            ("get", "a"),
            ("put", "d", "4"),
            ("get", "b"),
            ("get", "a"),
        ],
    ),
    (Linked, [("push", 1, "a"), ("push", 2, "b"), ("push", 3, "c"), ("reverse",), ("reverse",)]),
    (
        Elo,
        [
            ("game", "ann", "bob"),
            ("game", "cid", "ann"),
            ("leaders", 2),
            ("game", "bob", "cid"),
            ("leaders", 3),
        ],
    ),
    (
        Documents,
        [
            ("patch", "d", '{"a": 1, "b": 2}'),
            ("patch", "d", '{"a": null, "c": "x"}'),
            ("patch", "d", "{"),
        ],
    ),
    (
        Scheduler,
        [
            ("add", "a", []),
            ("add", "b", ["a"]),
            ("add", "c", ["a", "b"]),
            ("finish", "a"),
            ("finish", "b"),
            ("add", "d", ["a"]),
        ],
    ),
    (Trie, [("add", "mill"), ("add", "mile"), ("add", "pond"), ("complete", "mi"), ("complete", "x")]),
    (Life, [("born", 0, 1), ("born", 1, 1), ("born", 2, 1), ("turn",), ("turn",), ("born", 5, 5), ("turn",)]),
]

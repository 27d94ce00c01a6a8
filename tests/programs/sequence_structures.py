"""Data structures and algorithms on state, as people write them: pointers, walks, recursion, generators, closures."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator

from millpond import Counter, List, Map, Matrix, Partitioned, Program, Set, Value, Vector, entry
from tests.fuzz.rows import Row


def find(parent: Map[int, int], node: int) -> int:
    """The root of a node, found by a function that is given the element."""
    while parent.get(node, node) != node:
        node = parent[node]
    return node


class UnionFind(Program):
    """Sets that are joined, by recursion with path compression."""

    parent = Partitioned(Map[int, int])
    size = Partitioned(Counter[int])

    def _find(self, node: int) -> int:
        above = self.parent.get(node, node)
        if above == node:
            return node
        root = self._find(above)
        self.parent[node] = root
        return root

    @entry
    def union(self, one: int, other: int) -> int:
        one, other = self._find(one), self._find(other)
        if one != other:
            if self.size[one] < self.size[other]:
                one, other = other, one
            self.parent[other] = one
            self.size[one] += self.size[other] + 1
        return one

    @entry
    def same(self, one: int, other: int) -> bool:
        return find(self.parent, one) == find(self.parent, other)


def unions(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(["union", "union", "same"]), (rng.randrange(30), rng.randrange(30))


class Graph(Program):
    """Edges in state, walked breadth first and depth first."""

    edges = Partitioned(Map[int, list[int]])

    @entry
    def add(self, source: int, target: int) -> None:
        self.edges.setdefault(source, []).append(target)

    @entry
    def reach(self, source: int) -> list[int]:
        seen = [source]
        waiting = deque([source])
        while waiting:
            for target in self.edges.get(waiting.popleft(), []):
                if target not in seen:
                    seen.append(target)
                    waiting.append(target)
        return seen

    def _depth(self, node: int, trail: tuple[int, ...]) -> int:
        if node in trail:
            return 0
        return 1 + max((self._depth(one, (*trail, node)) for one in self.edges.get(node, [])), default=0)

    @entry
    def depth(self, node: int) -> int:
        return self._depth(node, ())

    @entry
    def cut(self, node: int) -> int:
        gone = len(self.edges.pop(node, []))
        for source, targets in self.edges.items():
            if node in targets:
                targets[:] = [target for target in targets if target != node]
                gone += 1
            if not targets:
                del self.edges[source]
        return gone


def graph(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        name = rng.choice(["add", "add", "add", "reach", "depth", "cut"])
        yield name, tuple(rng.randrange(7) for _ in range(2 if name == "add" else 1))


class Lru(Program):
    """A cache that forgets what was used the longest ago: a linked list in state."""

    after = Partitioned(Map[str, str])
    before = Partitioned(Map[str, str])
    held = Partitioned(Map[str, int])
    ends = Partitioned(Map[str, str])
    SIZE = 3

    def _unlink(self, key: str) -> None:
        left, right = self.before.pop(key, ""), self.after.pop(key, "")
        if left:
            self.after[left] = right
        else:
            self.ends["first"] = right
        if right:
            self.before[right] = left
        else:
            self.ends["last"] = left

    def _link(self, key: str) -> None:
        last = self.ends.get("last", "")
        self.before[key], self.after[key] = last, ""
        if last:
            self.after[last] = key
        else:
            self.ends["first"] = key
        self.ends["last"] = key

    @entry
    def put(self, key: str, value: int) -> str:
        if key in self.held:
            self._unlink(key)
        self.held[key] = value
        self._link(key)
        if len(self.held) <= self.SIZE:
            return ""
        oldest = self.ends["first"]
        self._unlink(oldest)
        del self.held[oldest]
        return oldest

    @entry
    def get(self, key: str) -> int:
        if key not in self.held:
            return -1
        self._unlink(key)
        self._link(key)
        return self.held[key]


def lru(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        key = rng.choice("abcdef")
        yield ("put", (key, rng.randrange(9))) if rng.random() < 0.6 else ("get", (key,))


class Pointers(Program):
    """A while loop over pointers, and a queue that is taken from."""

    next_of = Partitioned(Map[int, int])
    hits = Partitioned(Counter[int])

    @entry
    def point(self, source: int, target: int) -> None:
        self.next_of[source] = target

    @entry
    def follow(self, start: int, most: int) -> list[int]:
        trail = [start]
        while most > 0 and (target := self.next_of.get(trail[-1])) is not None:
            trail.append(target)
            self.hits[target] += 1
            most -= 1
        return trail


def pointers(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(["point", "follow"]), (rng.randrange(8), rng.randrange(8))


class Generators(Program):
    """Helpers that are generators, closures over state, and functions that are handed on."""

    items = Partitioned(Map[int, list[int]])
    seen = Partitioned(Set[int])

    def _all(self):
        for key in self.items:
            yield from ((key, one) for one in self.items[key])

    @entry
    def add(self, key: int, value: int) -> int:
        def fresh(one: int) -> bool:
            if one in self.seen:
                return False
            self.seen.add(one)
            return True

        if fresh(value):
            self.items.setdefault(key, []).append(value)
        return len(self.seen)

    @entry
    def first(self, least: int) -> int:
        return next((one for _, one in self._all() if one >= least), -1)

    @entry
    def ranked(self) -> list[int]:
        return sorted(self.items, key=lambda key: (-sum(self.items[key]), key))

    @entry
    def counted(self) -> int:
        total = 0

        def count(values: list[int]) -> None:
            nonlocal total
            total += len(values)

        for values in map(self.items.get, self.items):
            count(values)
        return total


def generators(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        name = rng.choice(["add", "add", "first", "ranked", "counted"])
        given = {"add": (rng.randrange(4), rng.randrange(30)), "first": (rng.randrange(30),)}
        yield name, given.get(name, ())


class Whole(Program):
    """Elements as whole values: compared, copied, spread, written as JSON, tested for truth."""

    one = Partitioned(Map[str, int])
    other = Partitioned(Map[str, int])
    texts = Partitioned(Map[str, list[str]])

    @entry
    def put(self, key: str, value: int) -> None:
        self.one[key] = value
        self.texts.setdefault(key, []).append(str(value))

    @entry
    def move(self) -> int:
        self.other.update(self.one)
        if self.one == self.other:
            self.one.clear()
        return len(self.other)

    @entry
    def show(self) -> str:
        together = {**self.one, "size": len(self.other)}
        return json.dumps([together, dict(self.other), self.one.copy(), sorted(self.one)]) + json.dumps(self.texts)

    @entry
    def swap(self, key: str) -> bool:
        source, target = (self.one, self.other) if key in self.one else (self.other, self.one)
        if not source:
            return False
        first = next(iter(source))
        target[first] = source.pop(first)
        self.texts[first] = self.texts.get(key, [])
        return bool(self.one | {}) or self.one != {"a": 1}


def whole(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        shot = rng.random()
        if shot < 0.5:
            yield "put", (rng.choice("abcd"), rng.randrange(5))
        else:
            yield rng.choice([("move", ()), ("show", ()), ("swap", (rng.choice("abcd"),))])


class Heap(Program):
    """A binary heap in a list of state."""

    heap = Partitioned(List[int])
    size = Partitioned(Value[int])

    def _swap(self, one: int, other: int) -> None:
        self.heap[one], self.heap[other] = self.heap[other], self.heap[one]

    def _sink(self, at: int, size: int) -> None:
        child = 2 * at + 1
        if child + 1 < size and self.heap[child + 1] < self.heap[child]:
            child += 1
        if child < size and self.heap[child] < self.heap[at]:
            self._swap(at, child)
            self._sink(child, size)

    @entry
    def push(self, value: int) -> None:
        size = self.size.get(0)
        if size < len(self.heap):
            self.heap[size] = value
        else:
            self.heap.append(value)
        self.size.set(size + 1)
        while size and self.heap[(size - 1) // 2] > self.heap[size]:
            self._swap(size, (size - 1) // 2)
            size = (size - 1) // 2

    @entry
    def pop(self) -> int:
        size = self.size.get(0)
        if not size:
            self.abort("empty")
        least = self.heap[0]
        self._swap(0, size - 1)
        self.size.set(size - 1)
        self._sink(0, size - 1)
        return least


def heap(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield ("push", (rng.randrange(50),)) if rng.random() < 0.6 else ("pop", ())


class Trie(Program):
    """A tree of nodes by number, each with its children."""

    nodes = Partitioned(Map[int, dict[str, int]])
    ends = Partitioned(Set[int])
    last = Partitioned(Value[int])

    def _child(self, node: int, letter: str, make: bool) -> int:
        children = self.nodes.get(node, {})
        if letter not in children and make:
            number = self.last.get(0) + 1
            self.last.set(number)
            children[letter] = number
            self.nodes[node] = children
        return children.get(letter, -1)

    @entry
    def add(self, word: str) -> int:
        node = 0
        for letter in word:
            node = self._child(node, letter, make=True)
        self.ends.add(node)
        return node

    def _words(self, node: int, prefix: str) -> list[str]:
        found = [prefix] if node in self.ends else []
        for letter, child in sorted(self.nodes.get(node, {}).items()):
            found += self._words(child, prefix + letter)
        return found

    @entry
    def under(self, prefix: str) -> list[str]:
        node = 0
        for letter in prefix:
            node = self._child(node, letter, make=False)
        return self._words(node, prefix)


def trie(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        word = "".join(rng.choice("ab") for _ in range(rng.randrange(4)))
        yield rng.choice(["add", "under"]), (word,)


class Ranks(Program):
    """Links with weights in a matrix and ranks in a vector, computed over all of both."""

    links = Partitioned(Matrix[int, int, int])
    ranks = Partitioned(Vector[int])

    @entry
    def link(self, source: int, target: int) -> int:
        self.links[source, target] += 1
        return self.links[source, target]

    @entry
    def unlink(self, source: int, target: int) -> bool:
        try:
            del self.links[source, target]
        except KeyError:
            return False
        return True

    @entry
    def rank(self) -> float:
        for (source, target), count in self.links.items():
            self.ranks[target] += count * (1.0 + self.ranks[source]) / 4
        return max(self.ranks.values(), default=0.0)

    @entry
    def into(self, target: int) -> dict[int, float]:
        return dict(self.links.column(target))


def ranks(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        name = rng.choice(["link", "link", "unlink", "rank", "into"])
        yield name, tuple(rng.randrange(5) for _ in range({"rank": 0, "into": 1}.get(name, 2)))


class Events(Program):
    """try, with and finally around state, and objects that are stored in two places."""

    queues = Partitioned(Map[str, list[int]])
    copies = Partitioned(Map[str, list[int]])
    failed = Partitioned(Counter[str])

    @entry
    def offer(self, queue: str, value: int) -> int:
        waiting = self.queues.get(queue)
        if waiting is None:
            waiting = self.queues[queue] = []
        waiting.append(value)
        self.copies[queue + "!"] = waiting
        return len(waiting)

    @entry
    def take(self, queue: str) -> int:
        try:
            value = self.queues[queue].pop(0)
            other = self.copies[f"{'ab'[value % 2]}!"]
            other.append(value)
            return 100 // value
        except (KeyError, IndexError):
            self.failed[queue] += 1
            return -1
        finally:
            self.failed["all"] += 1

    @entry
    def lose(self, queue: str) -> None:
        self.queues.pop(queue, None)
        self.failed.clear()
        if len(self.copies) > 1:
            raise RuntimeError("kept")


def events(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        name = rng.choice(["offer", "offer", "take", "lose"])
        yield name, (rng.choice("ab"), rng.randrange(4))[: 2 if name == "offer" else 1]


class Base(Program):
    """What a class has that others derive from."""

    totals = Partitioned(Map[str, int])

    def _add(self, key: str, value: int) -> int:
        self.totals[key] = self.totals.get(key, 0) + value
        return self.totals[key]

    @property
    def size(self) -> int:
        return len(self.totals)


class Derived(Base):
    """super(), properties, and the program itself handed to a function."""

    log = Partitioned(List[str])

    def _add(self, key: str, value: int) -> int:
        total = super()._add(key, value)
        self.log.append(f"{key}={total}")
        return total

    @entry
    def add(self, key: str, value: int) -> int:
        return self._add(key, value) + self.size

    @entry
    def twice(self, key: str) -> list[str]:
        return doubled(self, key)


def doubled(program: Derived, key: str) -> list[str]:
    program._add(key, program.totals.get(key, 1))
    return list(program.log)[-3:]


def derived(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        key = rng.choice("abc")
        yield ("add", (key, rng.randrange(5))) if rng.random() < 0.7 else ("twice", (key,))


class Chance(Program):
    """Random numbers of the row inside a recursion, and a walk that depends on them."""

    cells = Partitioned(Map[int, int])

    def _throw(self, depth: int) -> int:
        cell = self.random.randrange(6)
        self.cells[cell] = self.cells.get(cell, 0) + 1
        return cell if depth == 0 else cell + self._throw(depth - 1)

    @entry
    def throw(self, number: int, depth: int) -> int:
        return self._throw(depth) + number

    @entry
    def fullest(self) -> int:
        return max(self.cells, key=lambda cell: (self.cells[cell], cell), default=-1)


def chance(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield ("throw", (rng.randrange(99), rng.randrange(4))) if rng.random() < 0.8 else ("fullest", ())


class ThereAndBack(Program):
    """Two elements that are visited there and back, with keys that come out of them."""

    tasks = Partitioned(Map[int, str])
    workers = Partitioned(Map[str, int])

    @entry
    def assign(self, task: int, worker: str) -> str:
        before = self.tasks.get(task, "")
        if before:
            self.workers[before] -= 1
        self.tasks[task] = worker
        self.workers[worker] = self.workers.get(worker, 0) + 1
        idle = min(self.workers, key=lambda one: (self.workers[one], one))
        for other in self.tasks:
            if self.tasks[other] == worker and self.workers[worker] > 2:
                self.tasks[other] = idle
                self.workers[worker] -= 1
                self.workers[idle] += 1
        return idle


def there_and_back(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield "assign", (rng.randrange(8), rng.choice("xyz"))


class ByName(Program):
    """Helpers that are looked up by their names, as texts."""

    held = Partitioned(Map[str, int])
    done = Partitioned(Counter[str])

    def _do_put(self, key: str) -> int:
        self.held[key] = self.held.get(key, 0) + self.random.randrange(5)
        return self.held[key]

    def _do_all(self, key: str) -> int:
        return sum(self.held.values()) + len(key)

    def _do_drop(self, key: str) -> int:
        if key not in self.held:
            self.abort("nothing there")
        return self.held.pop(key)

    @entry
    def do(self, what: str, key: str) -> int:
        self.done[what] += 1
        return getattr(self, f"_do_{what}")(key)


def by_name(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield "do", (rng.choice(["put", "put", "all", "drop"]), rng.choice("abc"))


PROGRAMS = {
    ByName: by_name,
    UnionFind: unions,
    Graph: graph,
    Lru: lru,
    Pointers: pointers,
    Generators: generators,
    Whole: whole,
    Heap: heap,
    Trie: trie,
    Ranks: ranks,
    Events: events,
    Derived: derived,
    Chance: chance,
    ThereAndBack: there_and_back,
}

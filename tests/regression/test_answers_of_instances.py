"""What instances answer comes to a merge function as it does on Spark, in plain Python too: lists and copies."""

from __future__ import annotations

import pytest

from millpond import Counter, Map, Matrix, Partial, Program, Value, each, entry, merged
from millpond.testing import simulate


def grown(answers: list[list[int]]) -> list[int]:
    """Work in place, on what is its own."""
    first, *others = answers
    for other in others:
        first.extend(other)
    first.append(99)
    return sorted(first)


def joined(answers: list[list[tuple[str, int]]]) -> dict[str, int]:
    """Change the lists that were told."""
    told = answers[0]
    for other in answers[1:]:
        told += other
    told.sort()
    found: dict[str, int] = {}
    while told:
        key, count = told.pop(0)
        found[key] = found.get(key, 0) + count
    return found


def cells(answers: list[list[tuple[tuple[int, int], int]]]) -> int:
    return sum(value for told in answers for _, value in told[:5]) + 0 * sum(map(len, answers))


class Told(Program):
    lists = Partial(Map[str, list[int]], merge=lambda lists: sorted(one for each in lists for one in each))
    counts = Partial(Counter[str], merge=sum)
    kept = Partial(Value[list[int]], merge=lambda lists: sorted(one for each in lists for one in each))
    square = Partial(Matrix[int, int, int], merge=sum)

    @entry
    def add(self, k: str, n: int) -> None:
        self.lists.setdefault(k, []).append(n)
        self.counts[k] += n
        self.kept.set([*self.kept.get([]), n])
        self.square[n, n] = n

    @entry
    def get(self, k: str) -> list[int]:
        return merged(each(self.lists).get(k, []), grown)

    @entry
    def value(self) -> list[int]:
        return merged(each(self.kept).get([]), grown)

    @entry
    def items(self) -> dict[str, int]:
        return merged(each(self.counts).items(), joined)  # type: ignore[arg-type]

    @entry
    def cells(self) -> int:
        return merged(each(self.square).items(), cells)  # type: ignore[arg-type]


ROWS = [("add", "a", 3), ("add", "b", 1), ("add", "a", 2), ("get", "a"), ("get", "a"), ("value",), ("value",)]
ROWS += [("items",), ("items",), ("cells",), ("add", "a", 7), ("get", "a"), ("value",), ("items",), ("cells",)]


@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("epochs", [1, 4, len(ROWS)])
def test_a_merge_function_that_works_in_place_changes_no_state(instances, epochs):
    run = simulate(Told, ROWS, epochs=epochs, partitions=2, instances=instances)
    assert run.replies[3:7] == [[2, 3, 99]] * 2 + [[1, 2, 3, 99]] * 2
    assert run.replies[7:10] == [{"a": 5, "b": 1}, {"a": 5, "b": 1}, 6]
    plain = Told()
    assert run.replies == [getattr(plain, name)(*given) for name, *given in ROWS]
    assert plain.lists["a"] == [3, 2, 7]

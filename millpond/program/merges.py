"""Merge functions for `merged(values, function)`, ready made.

Each takes the answers of all instances as a list, in the order of the instances, and gives one value. Python's own
`sum`, `min` and `max` work too; those here also stand answers of None, which is what `get(key)` says where an instance
holds nothing, and give the same result on every version of Python.

A program with partial state equals the plain class if its merge gives for many instances what it gives for one whole:
`total` of whole numbers, `least`, `greatest`, `union`, `add_vectors` of whole numbers and `top_k` of whole counts do.
`concatenate` does not, where order matters: each instance saw only some of the rows.

They also serve as `Partial(..., merge=function)`, which makes one of several instances when a checkpoint gets fewer:
all but `mean` and `top_k`, whose results are no entries of state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from millpond.errors import ProgramError
from millpond.state.containers.vector import Vector

T = TypeVar("T")
K = TypeVar("K")


def total(answers: list[Any]) -> Any:
    """Return the sum of the answers, added one by one in the order of the instances; 0 if all are None.

    >>> total([1, None, 2.5])
    3.5
    """
    # Not sum(): from Python 3.12 on it compensates rounding, and the result would depend on the version.
    whole: Any = 0
    for answer in _known(answers):
        whole = whole + answer
    return whole


def least(answers: list[T | None]) -> T | None:
    """Return the smallest answer, None if there is none; of equal ones the first.

    >>> least([3, None, 2])
    2
    """
    return min(_known(answers), default=None)  # type: ignore[type-var]


def greatest(answers: list[T | None]) -> T | None:
    """Return the largest answer, None if there is none; of equal ones the first.

    >>> greatest(["mill", None, "pond"])
    'pond'
    """
    return max(_known(answers), default=None)  # type: ignore[type-var]


def union(answers: list[Any]) -> set[Any]:
    """Return all members of all answers, which may be sets, lists or anything else that can be walked through.

    >>> sorted(union([{1, 2}, None, [2, 3]]))
    [1, 2, 3]
    """
    members: set[Any] = set()
    for answer in _known(answers):
        members.update(answer)
    return members


def concatenate(answers: list[Any]) -> list[Any]:
    """Return the items of all answers in one list: in the order of the instances, and within an answer in its own.

    Of a set, which has no order of its own, the items are sorted.

    >>> concatenate([[3, 1], None, (2,), {5, 4}])
    [3, 1, 2, 4, 5]
    """
    items: list[Any] = []
    for answer in _known(answers):
        items += sorted(answer) if isinstance(answer, AbstractSet) else answer
    return items


def add_vectors(answers: list[Any]) -> Vector[Any]:
    """Return the sum of vectors, or of dicts from keys to numbers; keys that are missing count as 0.

    >>> add_vectors([{"a": 1.0}, None, {"a": 2.0, "b": 4.0}])
    Vector({'a': 3.0, 'b': 4.0})
    """
    whole: Vector[Any] = Vector()
    for answer in _known(answers):
        for key, number in _pairs(answer):
            whole[key] = whole[key] + number if key in whole else number
    return whole


def mean(answers: list[tuple[Any, int] | None]) -> float | None:
    """Return the mean over all instances of answers (sum, count); None if nothing was counted.

    The mean of means would be wrong: instances count different numbers of rows.

    >>> mean([(10.0, 4), None, (2.0, 2)])
    2.0
    """
    known = _known(answers)
    count = total([counted for _, counted in known])
    return float(total([summed for summed, _ in known]) / count) if count else None


def top_k(k: int) -> Callable[[list[Any]], list[tuple[Any, Any]]]:
    """Return a merge that adds up counts by key, and gives the `k` largest as (key, count), largest first.

    Answers are vectors, dicts, or lists of (key, count). Keys with equal counts come in their own order. Ask the
    instances for all their counts: the k largest of each are not enough to tell the k largest of all.

    >>> top_k(2)([{"a": 1, "b": 3}, None, [("a", 4), ("c", 3)]])
    [('a', 5), ('b', 3)]
    """
    if k < 0:
        raise ProgramError("MP179", "top_k of a negative number", expected="0 or more", found=str(k))

    def merge(answers: list[Any]) -> list[tuple[Any, Any]]:
        counts = sorted(add_vectors(answers).items())
        # Sorting is stable: among equal counts, the order of the keys stays.
        return sorted(counts, key=lambda pair: pair[1], reverse=True)[:k]

    return merge


def _known(answers: Iterable[T | None]) -> list[T]:
    return [answer for answer in answers if answer is not None]


def _pairs(answer: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    return answer.items() if isinstance(answer, Mapping) else answer


__all__ = ["add_vectors", "concatenate", "greatest", "least", "mean", "top_k", "total", "union"]

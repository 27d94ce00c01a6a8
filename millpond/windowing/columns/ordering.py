"""Pairs of a key and a point, sorted: each once, those that are new, how many lie before another, ranges of them."""

from __future__ import annotations

import numpy as np

from millpond.windowing.aggregates.forms import Ints
from millpond.windowing.columns.intake import pack


def unique_pairs(keys: Ints, points: Ints) -> tuple[Ints, Ints]:
    """Return the pairs that occur, sorted."""
    order = np.lexsort((points, keys))
    keys, points = keys[order], points[order]
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (points[1:] != points[:-1])
    return keys[new], points[new]


def without(keys: Ints, points: Ints, known: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Sort the pairs that are not among those that are known; each is there once, in both."""
    all_keys, all_points = np.concatenate((known[0], keys)), np.concatenate((known[1], points))
    order = np.lexsort((np.arange(len(all_keys)), all_points, all_keys))
    all_keys, all_points = all_keys[order], all_points[order]
    fresh = order >= len(known[0])
    fresh[1:] &= (all_keys[1:] != all_keys[:-1]) | (all_points[1:] != all_points[:-1])
    return all_keys[fresh], all_points[fresh]


def places(keys: Ints, points: Ints, of_keys: Ints, of_points: Ints) -> Ints:
    """Return how many of the sorted pairs lie before each of the others."""
    packed = pack(np.concatenate((keys, of_keys)), np.concatenate((points, of_points)))
    if packed is not None:
        cells = packed[0]
        return np.asarray(np.searchsorted(cells[: len(keys)], cells[len(keys) :]), np.int64)
    asked = len(of_keys)
    # Those that are asked for stand first, so they come before equal ones.
    order = np.lexsort((np.concatenate((of_points, points)), np.concatenate((of_keys, keys))))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(order >= asked)
    return before[:asked]


def ranges(begins: Ints, sizes: Ints) -> Ints:
    """Return numbers from each begin on, so many each, behind one another."""
    return np.asarray(np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum())), np.int64)

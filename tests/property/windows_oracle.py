"""Brute force: every window as the list of its records, found without slices, ids or state."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from zoneinfo import ZoneInfo

from millpond import windowing as w

DAY = 86_400_000_000


@dataclass(frozen=True)
class Case:
    """A window description beside the function that finds its windows: bounds and the numbers of their records."""

    name: str
    window: object
    find: Callable


def between(times, begin, end):
    return [number for number, time in enumerate(times) if begin <= time < end]


def periodic(points, range_, slide, first=None):
    """All windows that hold a record, whether they are over or not."""
    low = math.floor(min(points) / slide) - math.ceil(range_ / slide) - 1 if first is None else first
    high = math.floor(max(points) / slide) + 1
    found = []
    for number in range(low, high + 1):
        begin, end = number * slide, number * slide + range_
        inside = between(points, begin, end)
        if inside:
            found.append(((begin, end), inside))
    return found


def over(found, reached):
    return [(bounds, inside) for bounds, inside in found if bounds[1] <= reached]


def sliding(range_, slide):
    def find(times, values, now):
        return over(periodic(times, range_, slide), now)

    return Case(f"sliding({range_},{slide})", w.sliding(range_, slide), find)


def counted(range_, slide):
    """A full window is over when time moves on, or with the next record."""

    def find(times, values, now):
        return over(periodic(list(range(len(times))), range_, slide, first=0), len(times) - (now is None))

    return Case(f"counted({range_},{slide})", w.count_sliding(range_, slide), find)


def by_function(range_, slide):
    """The count windows of the document, by its begin and end function with the guard that it lacks."""

    def cut(seen, moment):
        return int(seen % slide == 0), int(seen >= range_ and (seen - range_) % slide == 0), seen + 1

    def find(times, values, now):
        return over(periodic(list(range(len(times))), range_, slide, first=0), len(times) - 1)

    return Case(f"by_function({range_},{slide})", w.user_defined(cut, 0), find)


def metres(value):
    return value[1]


def measured(range_, slide):
    def find(times, values, now):
        points = [metres(value) for value in values]
        return over(periodic(points, range_, slide), points[-1])

    return Case(f"measured({range_},{slide})", w.measured(metres, range_, slide), find)


def session(gap):
    def find(times, values, now):
        found, current = [], []
        for number, time in enumerate(times):
            if current and time - times[current[-1]] >= gap:
                found.append(current)
                current = []
            current.append(number)
        found.append(current)
        return over([((times[run[0]], times[run[-1]] + gap), run) for run in found], now)

    return Case(f"session({gap})", w.session(gap), find)


def is_mark(value):
    return value[0] % 4 == 0


def punctuated():
    def find(times, values, now):
        begins = [0] + [number for number in range(1, len(values)) if is_mark(values[number])]
        return [((a, b), list(range(a, b))) for a, b in pairwise(begins)]

    return Case("punctuation", w.punctuation(is_mark), find)


def is_end(value):
    return value[0] % 5 == 0


def landmarks():
    def find(times, values, now):
        found, begin = [], None
        for number, value in enumerate(values):
            if begin is not None and is_end(value):
                found.append(((begin, number), list(range(begin, number))))
                begin = None
            if begin is None and is_mark(value):
                begin = number
        return found

    return Case("landmark", w.landmark(is_mark, is_end), find)


def long_landmarks(length):
    def find(times, values, now):
        found, begin = [], None
        for time, value in zip(times, values, strict=True):
            if begin is not None and time >= begin + length:
                begin = None
            if begin is None and is_mark(value):
                begin = time
                found.append(((time, time + length), []))
        # A landmark window begins with its record: others of the same time may stand before it.
        whole = []
        for (begin, end), _ in found:
            first = next(n for n, v in enumerate(values) if times[n] == begin and is_mark(v))
            whole.append(((begin, end), [n for n in between(times, begin, end) if n >= first]))
        return over(whole, now)

    return Case(f"long_landmark({length})", w.landmark(is_mark, length=length), find)


def shape(value):
    """As the stock example: wide windows for high prices, narrow ones for low."""
    return (10, 5) if value[0] > 10 else (5, 2)


def varying():
    def find(times, values, now):
        found, due = [], None
        for number, (time, value) in enumerate(zip(times, values, strict=True)):
            wide, slide = shape(value)
            if due is None:
                due = time - time % slide - wide // slide * slide
            while due <= time:
                if due + wide > time:
                    still = [end for _, end, _ in found if end > time]
                    found.append((due, max([due + wide, *still]), number))
                due += slide
        whole = [((a, b), [n for n in between(times, a, b) if n >= first]) for a, b, first in found]
        return over(whole, now)

    return Case("varying", w.varying(shape), find)


def calendar(unit, zone, span, every):
    """By the date that a clock of the zone shows."""

    def number_of(time):
        day = datetime.datetime.fromtimestamp(time / 1_000_000, ZoneInfo(zone)).date()
        if unit == "day":
            return day.toordinal() - datetime.date(1970, 1, 1).toordinal()
        if unit == "week":
            return (day.toordinal() - datetime.date(1969, 12, 29).toordinal()) // 7
        return (day.year - 1970) * 12 + day.month - 1

    def find(times, values, now):
        units, reached = [number_of(time) for time in times], number_of(now)
        begins = range((min(units) - span) // every * every, max(units) + 1, every)
        found = [((b, b + span), [n for n, u in enumerate(units) if b <= u < b + span]) for b in begins]
        return [(bounds, inside) for bounds, inside in found if inside and bounds[1] <= reached]

    make = {"day": w.days, "week": w.weeks, "month": w.months}[unit]
    return Case(f"{unit}({zone},{span},{every})", make(zone, span=span, every=every), find)


def glue(left, right):
    return left + right


CONCATENATION = w.aggregate(
    lift=lambda value: f"{value[0]},", combine=glue, lower=str, identity="", partial_type=str, name="concatenation"
)


def middle(values, rank):
    return sorted(values)[min(len(values) - 1, int(rank * len(values)))]


def head(value):
    return value[0]


def fold(value):
    return value[0] % 7


AGGREGATES = {
    "sum": (w.sum_of(head), sum),
    "integers": (w.sum_of(head, integers=True), sum),
    "count": (w.count(), len),
    "mean": (w.mean_of(head), lambda values: sum(values) / len(values)),
    "variance": (w.variance_of(head), lambda values: statistics.pvariance(map(float, values))),
    "min": (w.min_of(head), min),
    "max": (w.max_of(head), max),
    "first": (w.first_of(head), lambda values: values[0]),
    "last": (w.last_of(head), lambda values: values[-1]),
    "argmin": (w.argmin(fold, head), lambda values: min(values, key=lambda v: v % 7)),
    "argmax": (w.argmax(fold, head), lambda values: max(values, key=lambda v: v % 7)),
    "top": (w.top_k(3, fold, head), lambda values: sorted(values, key=lambda v: -(v % 7))[:3]),
    "collect": (w.collect(head), list),
    "concatenation": (CONCATENATION, lambda values: "".join(f"{value}," for value in values)),
    "several": (
        w.several(total=w.sum_of(head), first=w.first_of(head), text=CONCATENATION),
        lambda values: {"total": sum(values), "first": values[0], "text": "".join(f"{v}," for v in values)},
    ),
}
"""Each aggregate and what it must give for the values of a window, in order."""

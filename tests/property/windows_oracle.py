"""Brute force: every window as the list of its records, found without slices, ids or state.

Records have a value `n` and a measure `m`.
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from operator import add, xor
from zoneinfo import ZoneInfo

from millpond import windowing as w
from tests.lengths import us

DAY = 86_400_000_000


@dataclass(frozen=True)
class Case:
    """A window description beside the function that finds its windows: bounds and the numbers of their records."""

    name: str
    window: object
    find: Callable
    merges: bool = False  # Whether a record can join two windows of the description.


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


def sliding(range_, slide, origin=0):
    def find(times, values, now):
        found = periodic([time - origin for time in times], range_, slide)
        return over([((begin + origin, end + origin), inside) for (begin, end), inside in found], now)

    return Case(f"sliding({range_},{slide},{origin})", w.sliding(us(range_), us(slide), origin=us(origin)), find)


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


def bursts():
    """Any number of windows begin one after the other, and one record ends them all."""

    def cut(still, moment):
        begun, ended = int(is_mark(moment.record)), still if is_end(moment.record) else 0
        return begun, ended, still - ended + begun

    def find(times, values, now):
        found = []
        for begin in (number for number, value in enumerate(values) if is_mark(value)):
            end = next((number for number in range(begin + 1, len(values)) if is_end(values[number])), None)
            found += [] if end is None else [((begin, end), list(range(begin, end)))]
        return found

    return Case("bursts", w.user_defined(cut, 0), find)


def latest(records, every):
    """The newest records, told with the first record at or after each multiple of a time."""

    def find(times, values, now):
        begins = [time // every for time in times]
        told = [number for number in range(1, len(times)) if begins[number] > begins[number - 1]]
        return [((max(0, end - records), end), list(range(max(0, end - records), end))) for end in told]

    return Case(f"latest({records},{every})", w.last_every(records, us(every)), find)


def halved():
    """A view that a function drives: a mark tells it, and an end lets the older half go."""

    def view(_state, moment, held):
        return held // 2 if is_end(moment.record) else 0, is_mark(moment.record), None

    def find(times, values, now):
        found, head = [], 0
        for number, value in enumerate(values):
            head += (number - head) // 2 if is_end(value) else 0
            if is_mark(value) and head < number:
                found.append(((head, number), list(range(head, number))))
        return found

    return Case("halved", w.viewed(view), find)


def metres(value):
    return value["m"]


def measured(range_, slide):
    def find(times, values, now):
        points = list(accumulate(map(metres, values), max))
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

    return Case(f"session({gap})", w.session(us(gap)), find, merges=True)


def is_mark(value):
    return value["n"] % 4 == 0


def punctuated():
    def find(times, values, now):
        begins = [0] + [number for number in range(1, len(values)) if is_mark(values[number])]
        return [((a, b), list(range(a, b))) for a, b in pairwise(begins)]

    return Case("punctuation", w.punctuation(is_mark), find)


def is_end(value):
    return value["n"] % 5 == 0


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

    return Case(f"long_landmark({length})", w.landmark(is_mark, length=us(length)), find)


def varying(unit=1):
    def shape(value):
        """As the stock example: wide windows for high prices, narrow ones for low."""
        return (10 * unit, 5 * unit) if value["n"] > 10 else (5 * unit, 2 * unit)

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

    return Case(f"varying({unit})", w.varying(lambda value: tuple(map(us, shape(value)))), find)


def calendar(unit, zone, span, every):
    """By the date that a clock of the zone shows."""

    def number_of(time):
        day = datetime.datetime.fromtimestamp(time / 1_000_000, ZoneInfo(zone)).date()
        if unit == "day":
            return day.toordinal() - datetime.date(1970, 1, 1).toordinal()
        if unit == "week":
            return (day.toordinal() - datetime.date(1969, 12, 29).toordinal()) // 7
        return (day.year - 1970) * 12 + day.month - 1

    def begin_of(number):
        """When a clock of the zone shows the first midnight of a unit."""
        if unit == "month":
            day = datetime.date(1970 + number // 12, number % 12 + 1, 1)
        else:
            first = datetime.date(1970, 1, 1) if unit == "day" else datetime.date(1969, 12, 29)
            day = first + datetime.timedelta(number * (1 if unit == "day" else 7))
        return int(datetime.datetime.combine(day, datetime.time(), ZoneInfo(zone)).timestamp()) * 1_000_000

    def find(times, values, now):
        units, reached = [number_of(time) for time in times], number_of(now)
        begins = range((min(units) - span) // every * every, max(units) + 1, every)
        found = [((b, b + span), [n for n, u in enumerate(units) if b <= u < b + span]) for b in begins]
        return [((begin_of(b), begin_of(e)), inside) for (b, e), inside in found if inside and e <= reached]

    make = {"day": w.days, "week": w.weeks, "month": w.months}[unit]
    return Case(f"{unit}({zone},{span},{every})", make(zone, span=span, every=every), find)


CONCATENATION = w.aggregate(
    lift=lambda value: f"{value['n']},", combine=add, lower=str, identity="", partial_type=str, name="concatenation"
)
PARITIES = w.aggregate(
    lift=lambda value: value["n"] & 31, combine=xor, lower=int, identity=0,
    commutative=True, invertible=xor, partial_type=int, name="parities",
)  # fmt: skip
RANKS = (0.0, 0.3, 0.5, 0.99)


@dataclass(frozen=True)
class Within:
    """What an estimate must lie in."""

    low: float
    high: float


def quantiles(values):
    """Between the values beside the rank; of many, the digest puts some together."""
    ordered, last, far = sorted(values), len(values) - 1, 1 + len(values) // 50
    places = [int(rank * len(values)) for rank in RANKS]
    return [Within(ordered[max(0, place - far)], ordered[min(last, place + far)]) for place in places]


def distinct(values):
    many = len(set(values))
    return Within(many - 0.01, many + 0.01)


def sample_variance(values):
    return statistics.variance(map(float, values)) if len(values) > 1 else None


def fold(value):
    return value["n"] % 7


AGGREGATES = {
    "sum": (w.sum_of("n"), sum),
    "integers": (w.sum_of("n", integers=True), sum),
    "count": (w.count(), len),
    "mean": (w.mean_of("n"), lambda values: sum(values) / len(values)),
    "variance": (w.variance_of("n"), lambda values: statistics.pvariance(map(float, values))),
    "sample": (w.variance_of("n", sample=True), sample_variance),
    "min": (w.min_of("n"), min),
    "max": (w.max_of("n"), max),
    "parities": (PARITIES, lambda values: reduce(xor, (value & 31 for value in values))),
    "first": (w.first_of("n"), lambda values: values[0]),
    "last": (w.last_of("n"), lambda values: values[-1]),
    "argmin": (w.argmin(fold, "n"), lambda values: min(values, key=lambda v: v % 7)),
    "argmax": (w.argmax(fold, "n"), lambda values: max(values, key=lambda v: v % 7)),
    "top": (w.top_k(3, fold, "n"), lambda values: sorted(values, key=lambda v: -(v % 7))[:3]),
    "quantiles": (w.quantiles_of(RANKS, "n"), quantiles),
    "distinct": (w.distinct_count("n"), distinct),
    "collect": (w.collect("n"), list),
    "concatenation": (CONCATENATION, lambda values: "".join(f"{value}," for value in values)),
    "several": (
        w.several(total=w.sum_of("n"), first=w.first_of("n"), text=CONCATENATION),
        lambda values: {"total": sum(values), "first": values[0], "text": "".join(f"{v}," for v in values)},
    ),
}
"""Each aggregate and what it must give for the values of a window, in order."""


def same(found, wanted):
    """Whether a result is the one that is wanted: of the same type, sums of floats but for their last bits."""
    if isinstance(wanted, Within):
        return isinstance(found, float) and wanted.low <= found <= wanted.high
    if isinstance(found, float) and isinstance(wanted, float | int):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return type(found) is type(wanted) and found == wanted

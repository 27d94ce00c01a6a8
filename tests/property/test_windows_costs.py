"""What one periodic query costs: the formulas of the document (its Table 5.1), and what is right where they are not.

A technique follows from two numbers: the slices that it cuts per slide, and those that a window has. All else does: how
many are kept, how many combinations a record, a slice and a result take. The document's figures are noted with the
tests. Its logarithms leave out what a tree pays to forget leaves, and take all powers of two for granted.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.baselines import Naive, pairs, pairs_plus, panes, reactive
from benchmarks.baselines.plaintree import PlainFlatFat
from millpond import windowing as w
from millpond.windowing.stores.flatfat import CAPACITY_MIN
from millpond.windowing.stores.stores import EAGER, ON_DEMAND, PREFIX
from tests.sizes import some_of

SHAPES = st.tuples(st.integers(1, 200), st.integers(1, 60))
TECHNIQUES = ("cutty", "pairs", "panes", "records")


def some_shapes(test):
    """Generated ranges and slides, and some that are told apart: multiples, gaps, nothing but overlap."""
    for shape in ((10, 3), (12, 4), (9, 6), (100, 7), (64, 64), (5, 1), (3, 10), (50, 49), (129, 1)):
        test = example(shape)(test)
    return settings(max_examples=some_of(25), deadline=None)(given(SHAPES)(test))


def make(technique, store, aggregate, queries):
    """A technique over a store; those that cut otherwise may keep more slices than windows are open."""
    if technique == "cutty":
        return w.SharedWindows(aggregate, queries, store=store, check=True)
    if technique == "records":
        assert store is PlainFlatFat
        return reactive(aggregate, queries)
    if technique == "pairs" and store is PlainFlatFat:
        return pairs_plus(aggregate, queries)
    return {"pairs": pairs, "panes": panes}[technique](aggregate, queries, store=store)


def records_of(range_, slide):
    """So many that windows end for long after the first, and the last ones do not."""
    return 3 * range_ + 20 * slide + 1


def run(windows, range_, slide):
    """Add records, each its own number; all results are checked."""
    records = records_of(range_, slide)
    results = [result.value for number in range(records) for result in windows.add(number)]
    assert results == [begin + range_ - 1 for begin in range(0, records - range_, slide)]
    return windows.counters


def count(technique, store, range_, slide, aggregate=None):
    return run(make(technique, store, aggregate or w.max_of(), {"w": w.count_sliding(range_, slide)}), range_, slide)


def per_slide(technique, range_, slide):
    """How many slices are cut in a slide: at begins; at begins and ends; at the common divisor; at each record."""
    both = 2 if range_ % slide else 1
    return {"cutty": 1, "pairs": both, "panes": slide // math.gcd(range_, slide), "records": slide}[technique]


def per_window(technique, range_, slide):
    """How many slices a window has that overlaps with others, the running one included.

    For pairs the document has the ceiling of 2r/s. That is never less, but more for 11/3 and all others whose rest is
    above half a slide: a window has one begin more inside than ends, or as many if each end is a begin.
    """
    whole = math.ceil(range_ / slide)
    ends = range_ // slide if range_ % slide else 0
    return {
        "cutty": whole,
        "pairs": whole + ends,
        "panes": range_ // math.gcd(range_, slide),
        "records": range_,
    }[technique]


def leaves_of(kept):
    """The leaves of the tree that so many slices need."""
    return max(CAPACITY_MIN, 1 << max(0, kept - 1).bit_length())


@dataclass
class Wanted:
    """What a run is to pay, step by step, by the shape of its tree alone: leaves, the first in use, their number."""

    commutative: bool
    leaves: int = CAPACITY_MIN
    head: int = 0
    size: int = 0
    updates: int = 0
    merges: int = 0
    partials: int = 0
    kept: int = 0
    leaves_max: int = CAPACITY_MIN

    def add(self):
        """A slice renews its ancestors; a tree that is full is made anew, which is no logarithm."""
        if self.size == self.leaves:
            self._resize(2 * self.leaves)
        self.size += 1
        self.partials += 1
        self.kept = max(self.kept, self.size)
        self.updates += self._depth()

    def purge(self, gone):
        """Leaves that lie side by side share ancestors; each is renewed once."""
        self.size -= gone
        head, self.head = self.head, (self.head + gone) % self.leaves
        if self.leaves > CAPACITY_MIN and 3 * self.size <= self.leaves:
            self._resize(self.leaves // 2)
        elif gone:
            self.updates += sum(self._above(head, gone, 1 << level) for level in range(1, self._depth() + 1))

    def result(self):
        """All slices and the running one: two ends of the array where they wrap around, or its root."""
        end = self.head + self.size
        if end <= self.leaves:
            nodes = whole_nodes(self.head, end)
        else:
            nodes = 1 if self.commutative else (self.leaves - self.head).bit_count() + (end - self.leaves).bit_count()
        self.merges += nodes
        return nodes

    def _above(self, head, gone, width):
        return min((head + gone - 1) // width - head // width + 1, self.leaves // width)

    def _depth(self):
        return self.leaves.bit_length() - 1

    def _resize(self, leaves):
        self.leaves, self.head = leaves, 0
        self.leaves_max = max(self.leaves_max, leaves)
        self.updates += leaves - 1


def whole_nodes(begin, end):
    """How many nodes of a tree cover these leaves: on both sides of the roundest place, one for each bit."""
    if begin == end:
        return 0
    middle = max(range(begin, end + 1), key=lambda place: place & -place if place else math.inf)
    return (middle - begin).bit_count() + (end - middle).bit_count()


def wanted(technique, range_, slide, *, commutative):
    """Go through records: windows end, slices that none needs are purged, then one is cut."""
    told, begins, slices, worst = Wanted(commutative), deque(), deque(), 0
    common = math.gcd(range_, slide)
    for number in range(records_of(range_, slide)):
        begun = number % slide == 0
        ended = number >= range_ and (number - range_) % slide == 0
        if ended:
            worst = max(worst, told.result())
            begins.popleft()
            through = begins[0] if begins else number
            gone = sum(1 for one in slices if one <= through)
            told.purge(gone)
            slices = deque(list(slices)[gone:])
        rules = {"cutty": begun, "pairs": begun or ended, "panes": number % common == 0, "records": True}
        if rules[technique] and begins:
            told.add()
            slices.append(number)
        if begun:
            begins.append(number)
    return told, worst


@pytest.mark.parametrize("technique", ["cutty", "pairs", "panes"])
@some_shapes
def test_slices_that_are_combined_when_asked(technique, shape):
    """A record is combined once; a result takes a combination less than it has slices.

    The document keeps a slice more for shared windows, and one combination more for each: it cuts before it ends
    windows. Here a window that ends frees its slices first.
    """
    range_, slide = shape
    counters, records = count(technique, ON_DEMAND, range_, slide), records_of(range_, slide)
    covered = sum(1 for record in range(records) if record % slide < range_)
    begins = math.ceil(records / slide)
    alone = range_ <= slide
    slices = per_window(technique, range_, slide)
    common = math.gcd(range_, slide)
    panes_cut = sum(1 for one in range(common, records, common) if not alone or 0 < one % slide < range_)
    ends_cut = counters.windows if technique == "pairs" and range_ % slide else 0
    cut = panes_cut if technique == "panes" else 0 if alone else begins - 1 + ends_cut
    assert counters.partials == cut
    assert counters.fold_calls == covered - cut - (begins if alone else 1)
    assert counters.update_calls == 0
    assert counters.live_slices_max == (slices - 1 if not alone or technique == "panes" else 0)
    # Before the first end there are no ends to cut at: with pairs, so many windows have fewer slices.
    ends = range_ // slide
    missing = sum(max(0, ends - number) for number in range(counters.windows))
    less = missing if technique == "pairs" and range_ % slide and not alone else 0
    each = slices - 1 if not alone or technique == "panes" else 0
    assert counters.merge_calls == counters.windows * each - less
    document = {
        "cutty": math.ceil(range_ / slide) + 1,
        "pairs": math.ceil(2 * range_ / slide),
        "panes": range_ // common,
    }
    assert slices <= document[technique]
    assert counters.lookups == counters.windows


@pytest.mark.parametrize("aggregate", [w.max_of(), w.last_of()], ids=["any order", "in order"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@some_shapes
def test_slices_in_the_tree_as_it_was_published(technique, aggregate, shape):
    """Pairs+, the tree of records, panes and shared windows: all combinations, one by one.

    The document has twice the slices as nodes, but leaves are a power of two, at least four: up to twice as many. It
    has a logarithm for a result, but leaves that wrap around, or begin and end anywhere, take up to two.
    """
    range_, slide = shape
    windows = make(technique, PlainFlatFat, aggregate, {"w": w.count_sliding(range_, slide)})
    counters = run(windows, range_, slide)
    told, worst = wanted(technique, range_, slide, commutative=aggregate.commutative)
    assert (counters.update_calls, counters.merge_calls) == (told.updates, told.merges)
    assert (counters.partials, counters.live_slices_max) == (told.partials, told.kept)
    assert len(windows._store._tree) == 2 * told.leaves
    slices = per_window(technique, range_, slide)
    if range_ > slide or technique in {"panes", "records"}:
        assert told.kept == slices - 1
    assert told.leaves_max == leaves_of(told.kept)
    assert worst <= max(1, 2 * math.log2(told.leaves_max))


@pytest.mark.parametrize("technique", TECHNIQUES)
@some_shapes
def test_what_a_slide_costs_once_windows_end(technique, shape):
    """The document's combinations per record, times the slide: s - c into slices, and a logarithm for each of c slices.

    That is (log r/s - 1)/s + 1, 2(log 2r/s - 1)/s + 1, and log r per record; for panes it must be divided by their
    length. To forget c slices costs as much again in the worst case, and less if they lie side by side.
    """
    range_, slide = shape
    cut, kept = per_slide(technique, range_, slide), per_window(technique, range_, slide) - 1
    leaves = leaves_of(kept)
    if range_ <= slide or (leaves > CAPACITY_MIN and 3 * (kept - cut) <= leaves):
        return  # Nothing is kept from slide to slide, or so little that the tree shrinks and grows again.
    windows = make(technique, PlainFlatFat, w.max_of(), {"w": w.count_sliding(range_, slide)})
    run(windows, range_, slide)
    counters, depth = windows.counters, leaves.bit_length() - 1
    for _ in range(8):
        folds, updates = counters.fold_calls, counters.update_calls
        for number in range(windows._position, windows._position + slide):
            windows.add(number)
        assert counters.fold_calls - folds == slide - cut
        forgotten = counters.update_calls - updates - cut * depth
        assert sum(math.ceil(cut / 2**level) for level in range(1, depth + 1)) <= forgotten <= cut * depth
        assert cut > 1 or forgotten == depth


@some_shapes
def test_our_tree_is_never_dearer_than_the_published_one(shape):
    """Free leaves are not combined, and a lookup ends where the fewest nodes do."""
    for technique in ("cutty", "pairs", "panes"):
        for aggregate in (w.max_of(), w.last_of()):
            ours, published = (count(technique, store, *shape, aggregate) for store in (EAGER, PlainFlatFat))
            assert (ours.fold_calls, ours.partials) == (published.fold_calls, published.partials)
            assert ours.live_slices_max == published.live_slices_max
            assert ours.update_calls <= published.update_calls
            assert ours.merge_calls <= published.merge_calls


@some_shapes
def test_no_sharing_combines_a_record_into_every_open_window(shape):
    """The document has no line for it: a window has a partial, and takes a combination less than it has records."""
    range_, slide = shape
    naive, records = count_naive(range_, slide), records_of(range_, slide)
    assert naive.update_calls == sum(min(range_, records - begin) - 1 for begin in range(0, records, slide))
    assert (naive.fold_calls, naive.merge_calls, naive.lookups) == (0, 0, 0)
    assert (naive.partials, naive.live_slices_max) == (math.ceil(records / slide), math.ceil(range_ / slide))


def count_naive(range_, slide):
    return run(Naive(w.max_of(), {"w": w.count_sliding(range_, slide)}), range_, slide)


@some_shapes
def test_an_inverse_takes_one_combination_per_slice_and_two_per_window(shape):
    """Not in the document: a slice is added to the total, and a result is a total less an older one, and what runs."""
    range_, slide = shape
    windows = w.SharedWindows(w.sum_of(integers=True), {"w": w.count_sliding(range_, slide)}, store=PREFIX, check=True)
    results = [one.value for number in range(records_of(range_, slide)) for one in windows.add(number)]
    begins = range(0, records_of(range_, slide) - range_, slide)
    assert results == [range_ * begin + range_ * (range_ - 1) // 2 for begin in begins]
    counters = windows.counters
    assert counters.update_calls <= counters.partials
    assert counters.merge_calls <= 2 * counters.windows
    assert counters.live_slices_max + 1 == math.ceil(range_ / slide)


def test_a_result_can_take_more_than_the_logarithm_of_the_document():
    _, worst = wanted("records", 30, 1, commutative=False)
    assert worst > math.log2(30) + 1

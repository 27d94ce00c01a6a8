from __future__ import annotations

from typing import Annotated

import pytest

from millpond.errors import ProgramError, StateError
from millpond.program import Collected, Distribution, Partial, Partitioned, ProgramBase, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix


class Words(ProgramBase):
    counts = Partitioned(Counter[str])
    seen = Partial(Counter[str])

    @entry
    def add(self, word: str) -> int:
        self.counts[word] += 1
        self.seen[word] += 1
        return self.counts[word]

    @entry
    def total(self, word: str) -> int:
        return merged(each(self.seen)[word], sum)

    def not_an_entry(self, word: str) -> None:
        pass


def refused(call, *args, kind=ProgramError):
    with pytest.raises(kind) as caught:
        call(*args)
    return caught.value.code


def with_entry(function):
    return type("Broken", (ProgramBase,), {"broken": entry(function)}).entries


def test_a_program_runs_as_plain_python():
    words = Words()
    assert [words.add("a"), words.add("b"), words.add("a")] == [1, 1, 2]
    assert words.total("a") == 2


def test_instances_of_a_program_share_nothing():
    one, other = Words(), Words()
    one.add("a")
    assert other.add("a") == 1


def test_elements_and_entry_points_are_listed_in_the_order_of_the_text():
    assert list(Words.elements()) == ["counts", "seen"]
    assert list(Words.entries()) == ["add", "total"]


def test_an_entry_point_knows_the_types_of_its_columns_and_reply():
    point = Words.entries()["add"]
    assert point.parameters == (("word", str),)
    assert point.returns is int
    assert point.replies


def test_an_entry_point_that_returns_nothing_does_not_reply():
    def quiet(self, word: str) -> None:
        pass

    assert not with_entry(quiet)()["broken"].replies


def test_annotations_of_parameters_are_kept():
    def limited(self, n: Annotated[int, "limit"]) -> None:
        pass

    assert with_entry(limited)()["broken"].parameters == (("n", Annotated[int, "limit"]),)


def test_a_subclass_inherits_replaces_and_takes_away():
    class More(Words):
        extra = Partitioned(Map[int, int])
        seen = None  # type: ignore[assignment]

        def add(self, word: str) -> int:
            return 0

        @entry
        def more(self, word: str) -> None:
            pass

    assert list(More.elements()) == ["counts", "extra"]
    assert list(More.entries()) == ["total", "more"]
    assert list(Words.elements()) == ["counts", "seen"]


def test_an_element_knows_its_name_and_distribution():
    counts, seen = Words.elements().values()
    assert (counts.name, counts.distribution, counts.partial) == ("counts", Distribution.PARTITIONED, False)
    assert (seen.name, seen.distribution, seen.partial) == ("seen", Distribution.PARTIAL, True)
    assert repr(seen) == "Partial(Counter[str])"
    assert repr(Partitioned(Matrix[int, int, float], by="column")) == (
        "Partitioned(Matrix[int, int, float], by='column')"
    )


def test_one_declaration_for_two_names_is_refused():
    shared = Partitioned(Counter[str])
    with pytest.raises((ProgramError, RuntimeError)) as caught:
        type("Twice", (ProgramBase,), {"a": shared, "b": shared})
    error = caught.value if isinstance(caught.value, ProgramError) else caught.value.__cause__
    assert error.code == "MP101"


def test_a_declaration_of_no_container_is_refused_where_it_stands():
    assert refused(Partitioned, dict[int, int], kind=StateError) == "MP211"


def test_too_many_elements_are_refused():
    many = {f"s{n}": Partitioned(Counter[str]) for n in range(256)}
    assert refused(type, "Many", (ProgramBase,), many) == "MP107"


def unresolved(self, x: Missing) -> None:  # noqa: F821
    pass


def starred(self, *x: int) -> None:
    pass


def by_place_only(self, x: int, /) -> None:
    pass


def untyped(self, x) -> None:
    pass


def no_return(self, x: int):
    pass


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (unresolved, "MP102"),
        (starred, "MP103"),
        (by_place_only, "MP103"),
        (untyped, "MP104"),
        (no_return, "MP105"),
    ],
)
def test_an_entry_point_that_can_not_take_rows_is_refused(function, code):
    assert refused(with_entry(function)) == code


def test_each_asks_and_merged_reconciles():
    counts = Counter({"a": 2})
    assert repr(each(counts).get("a")) == "Collected([2])"
    assert merged(each(counts)["a"], sum) == 2
    assert merged(Collected([1, 2, 3]), max) == 3


def test_merged_takes_only_what_each_gave():
    assert refused(merged, [1, 2], sum) == "MP106"


@pytest.mark.parametrize("use", [lambda all_of: "a" in all_of, list, len], ids=["in", "for", "len"])
def test_all_instances_together_are_no_collection(use):
    with pytest.raises(TypeError):
        use(each(Counter({"a": 2})))

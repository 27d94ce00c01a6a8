"""Which entry points are known to do nothing but add their row to windows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from millpond import Counter, Partitioned, Program, entry, on_window
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import Added, Adds
from millpond.windowing import ClosedWindow, count, sum_of, tumbling

NAMES = ("f", "n", "more")
LISTED = ["f", "n"]


class Adding(Program):
    seen = Partitioned(Counter[str])

    @entry
    def by_name(self, key: str, f: float, n: int) -> None:
        """Only this."""
        self.spans.add(key, n=n, f=f)

    @entry
    def by_place(self, key: str, f: float) -> None:
        self.spans.add(key, f)

    @entry
    def nothing(self, key: str) -> None:
        self.spans.add(key)

    @entry
    def tuple_key(self, key: str, f: float, n: int) -> None:
        self.pairs.add((key, n), f)

    @entry
    def parts(self, key: str, row: tuple[float, int]) -> None:
        self.spans.add(key, **dict(zip(NAMES, row, strict=False)))

    @entry
    def replies(self, key: str, f: float) -> int:
        self.spans.add(key, f)
        return 1

    @entry
    def more(self, key: str, f: float) -> None:
        self.spans.add(key, f)
        self.seen[key] += 1

    @entry
    def computed(self, key: str, f: float) -> None:
        self.spans.add(key, f=f + 1.0)

    @entry
    def constant(self, key: str, f: float) -> None:
        self.spans.add(key, f=1.0)

    @entry
    def chosen(self, key: str, f: float) -> None:
        if f:
            self.spans.add(key, f)

    @entry
    def twice(self, key: str, f: float) -> None:
        self.spans.add(key, f)
        self.spans.add(key, f)

    @entry
    def strict(self, key: str, row: tuple[float, int]) -> None:
        self.spans.add(key, **dict(zip(NAMES, row, strict=True)))

    @entry
    def listed(self, key: str, row: tuple[float, int]) -> None:
        self.spans.add(key, **dict(zip(LISTED, row, strict=False)))

    @entry
    def any_length(self, key: str, row: tuple[float, ...]) -> None:
        self.spans.add(key, **dict(zip(NAMES, row, strict=False)))

    @entry
    def by_float(self, key: float, f: float) -> None:
        self.floats.add(key, f)

    @entry
    def into_state(self, key: str) -> None:
        self.seen[key] += 1

    @on_window(tumbling(timedelta(seconds=1)), total=sum_of("f"), many=count())
    def spans(self, key: str, closed: list[ClosedWindow]) -> None:
        pass

    @on_window(tumbling(timedelta(seconds=1)), total=sum_of())
    def pairs(self, key: tuple[str, int], closed: list[ClosedWindow]) -> None:
        pass

    @on_window(tumbling(timedelta(seconds=1)), total=sum_of())
    def floats(self, key: float, closed: list[ClosedWindow]) -> None:
        pass


KNOWN = {
    "by_name": Adds("spans", (Added("n", "n"), Added("f", "f"))),
    "by_place": Adds("spans", (Added(None, "f"),)),
    "nothing": Adds("spans", ()),
    "tuple_key": Adds("pairs", (Added(None, "f"),)),
    "parts": Adds("spans", (Added("f", "row", 0), Added("n", "row", 1))),
}
COMPILED = compile_program(Adding)


@pytest.mark.parametrize("name", COMPILED.entries)
def test_an_entry_point_that_only_adds_is_known_and_no_other(name):
    assert [task.adds for task in COMPILED.entries[name].tasks if task.adds] == ([KNOWN[name]] if name in KNOWN else [])

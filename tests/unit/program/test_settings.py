"""Settings of a program: every way to run sees the same value, and a change is noted with the epoch that has it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from millpond import Counter, MillpondError, Partitioned, Program, entry
from millpond.checkpoint.records.manifest import decode_manifest, manifest_name
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.program.settings import configured, settings_of
from millpond.testing import assert_equals_plain, simulate


@dataclass(frozen=True)
class Limits:
    least: int = 3
    names: tuple[str, ...] = ("ann",)


class Alarms(Program):
    seen = Partitioned(Counter[str])

    def __init__(self, limit: int = 3, *, weights: dict[str, int] | None = None, limits: Limits = Limits()) -> None:
        super().__init__()
        self.limit = limit
        self.weights = weights or {"a": 1}
        self.limits = limits

    @property
    def double(self) -> int:
        return self.limit * 2

    def weight(self, name: str) -> int:
        return self.weights.get(name, 2) * self.limits.least

    @entry
    def hit(self, name: str) -> int:
        self.seen[name] += self.weight(name)
        return self.seen[name] if self.seen[name] >= self.limit else -1

    @entry
    def move(self, source: str, target: str) -> int:
        if self.seen[source] < self.limit:
            self.abort(f"below {self.limit}")
        self.seen[source] -= self.limit
        self.seen[target] += self.limit
        return self.seen[target]

    @entry
    def total(self) -> int:
        return self.seen.total() + self.double


class Rates(Program):
    LIMIT = 3
    rate: float = 0.5
    seen = Partitioned(Counter[str])

    @entry
    def hit(self, name: str) -> float:
        self.seen[name] += self.LIMIT
        return self.seen[name] * self.rate


ROWS = [
    *(("hit", name) for name in "aba"),
    ("move", "a", "b"),
    ("move", "b", "c"),
    ("move", "z", "c"),
    ("total",),
]
CHOSEN = [None, {"limit": 2}, {"limit": 5, "weights": {"b": 7}, "limits": Limits(2, ())}]


@pytest.mark.parametrize("settings", CHOSEN, ids=str)
@pytest.mark.parametrize("rows", [ROWS[:3], ROWS[:6], ROWS], ids=["by key", "gathered", "in sequence"])
def test_all_ways_to_run_see_them(rows, settings):
    run = simulate(Alarms, rows, epochs=2, partitions=3, settings=settings)
    assert_equals_plain(run)
    plain = Alarms(**(settings or {}))
    assert run.replies[:3] == [plain.hit(name) for _, name in rows[:3]]


def test_constants_of_a_class_are_settings_too():
    run = simulate(Rates, [("hit", "a")], settings={"LIMIT": 2, "rate": 4.0})
    assert_equals_plain(run)
    assert run.replies == [Rates(LIMIT=2, rate=4.0).hit("a")] == [8.0]
    assert Rates().hit("a") == 1.5


def test_what_is_given_is_copied():
    weights = {"a": 1}
    program = configured(Alarms, {"weights": weights})
    weights["a"] = 50
    assert settings_of(program)["weights"] == {"a": 1}
    assert program().hit("a") == 3


class Required(Program):
    seen = Partitioned(Counter[str])

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    @entry
    def hit(self, name: str) -> int:
        self.seen[name] += self.limit
        return self.seen[name]


class Fills(Required):
    def __init__(self) -> None:
        super().__init__(1)
        self.seen["a"] = 1


class Opens(Required):
    def __init__(self) -> None:
        super().__init__(1)
        self.function = lambda: 1


class Forgets(Required):
    def __init__(self) -> None:
        self.limit = 1


class Changes(Program):
    seen = Partitioned(Counter[str])

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    @entry
    def hit(self, name: str) -> int:
        self.log.append(name)
        self.seen[name] += 1
        return self.seen[name]


@pytest.mark.parametrize(
    ("program", "settings", "code"),
    [
        (Required, None, "MP533"),
        (Required, {"limi": 1}, "MP533"),
        (Rates, {"none": 1}, "MP533"),
        (Rates, {"hit": 1}, "MP533"),
        (configured(Required, {"limit": 1}), {"limit": 2}, "MP533"),
        (Opens, None, "MP534"),
        (Required, {"limit": {1: object}}, "MP534"),
        (Fills, None, "MP535"),
        (Forgets, None, "MP535"),
        (Changes, None, "MP122"),
    ],
)
def test_what_is_refused(program, settings, code):
    with pytest.raises(MillpondError, match=code):
        simulate(program, [("hit", "a")], settings=settings)


def test_explain_takes_them():
    assert "hit" in Required.explain(settings={"limit": 2})
    with pytest.raises(MillpondError, match="MP533"):
        Required.explain()


def test_a_change_is_taken_noted_and_told(tmp_path, caplog):
    def epoch(limit):
        run = Simulated(compile_program(configured(Required, {"limit": limit})), tmp_path, 2)
        run.epoch([("hit", ("a",))])
        run.close()
        storage = run.storage
        return [decode_manifest(storage.get(manifest_name(one)), manifest_name(one)) for one in range(1, run.batch + 1)]

    with caplog.at_level(logging.WARNING, "millpond"):
        (first,) = epoch(2)
        assert not caplog.records
        _, second = epoch(2)
        *_, third = epoch(5)
    assert first.settings == second.settings != third.settings
    assert set(third.settings) == {"limit"}
    assert [record.getMessage() for record in caplog.records] == ["Required: settings changed since epoch 2: limit"]


def test_a_manifest_without_settings_is_as_before(tmp_path):
    run = Simulated(compile_program(Rates), tmp_path, 2)
    run.epoch([("hit", ("a",))])
    run.close()
    assert b"settings" not in run.storage.get(manifest_name(1))

"""A project that is not installed: its classes, helpers and settings reach the workers, in steps and in sequence."""

from __future__ import annotations

import importlib
import sys

import pytest

from millpond import memory

pytestmark = pytest.mark.spark

MODELS = """
import enum
import threading
from dataclasses import dataclass, field

LOCK = threading.Lock()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Cart:
    lines: list[str] = field(default_factory=list)
    colour: Colour = Colour.RED


def weight(text):
    with LOCK:
        return len(text)
"""
SHOP = """
from __future__ import annotations

import models_of_user
from models_of_user import Cart, Colour
from millpond import Map, Partial, Partitioned, Program, each, entry


class Shop(Program):
    carts = Partitioned(Map[str, Cart])
    colours = Partitioned(Map[Colour, int])
    rules = Partial(Map[str, int], on_scale_out="copy")

    def __init__(self, limit: int = 5) -> None:
        super().__init__()
        self.limit = limit

    @entry
    def rule(self, name: str, weight: int) -> None:
        each(self.rules)[name] = weight

    @entry
    def add(self, user: str, item: str, colour: Colour) -> int:
        rule = self.rules.get(item, self.limit)
        cart = self.carts.setdefault(user, Cart())
        cart.lines.append(item)
        cart.colour = colour
        self.colours[colour] = self.colours.get(colour, 0) + models_of_user.weight(item) * rule
        return self.colours[colour]
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    for name, text in {"models_of_user": MODELS, "shop_of_users": SHOP}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("shop_of_users").Shop
    for name in ("models_of_user", "shop_of_users"):
        del sys.modules[name]


@pytest.mark.parametrize("told", [False, True], ids=["in steps", "in sequence"])
def test_workers_have_what_they_can_not_import(spark, shop, told, tmp_path):
    colours = type(shop.__init__.__globals__["Colour"].RED)
    rows = [(at, str(at % 3), "ab"[at % 2] * (at % 4 + 1), ("red", "blue")[at % 2]) for at in range(1, 13)]
    plain, replies = shop(3), memory()
    job = shop.on(spark, checkpoint=tmp_path / "checkpoint", partitions=2, settings={"limit": 3})
    if told:
        plain.rule("aaa", 10)
        rules = spark.createDataFrame([(0, "aaa", 10)], "at long, name string, weight int")
        job.feed("rule", rules, order_by="at")
    frame = spark.createDataFrame(rows, "at long, user string, item string, colour string")
    job.feed("add", frame, to=replies, order_by="at", keep=["at"])
    job.run()
    found = [row["reply"] for row in sorted(replies.rows(), key=lambda row: row["at"])]
    assert found == [plain.add(user, item, colours(colour)) for _, user, item, colour in rows]

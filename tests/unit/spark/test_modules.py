"""Modules that workers can't import travel with the plan: a process that has none of them runs it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap

import cloudpickle
import pytest

from millpond.compiler.compile import compile_program
from millpond.engine.plan import ProgramPlan
from millpond.keygroups import Layout
from millpond.spark.modules import offer, sources_of
from millpond.spark.ship import pack

MODELS = """
import enum
import threading
from dataclasses import dataclass

from kit_of_user.deep import weights

LOCK = threading.Lock()


class Kind(enum.Enum):
    A = "a"


@dataclass
class Item:
    name: str
    kind: Kind


def weight(name):
    with LOCK:
        return weights.of(name)
"""
PROGRAM = """
from __future__ import annotations

from kit_of_user import models
from kit_of_user.models import Item, Kind
from millpond import Map, Partitioned, Program, entry


class Shop(Program):
    items = Partitioned(Map[str, Item])

    @entry
    def add(self, name: str) -> int:
        self.items[name] = Item(name, Kind.A)
        return models.weight(name)
"""
FILES = {
    "kit_of_user/__init__.py": "",
    "kit_of_user/models.py": MODELS,
    "kit_of_user/deep/__init__.py": "",
    "kit_of_user/deep/weights.py": "from . import factors\n\n\ndef of(name):\n    return len(name) * factors.FACTOR\n",
    "kit_of_user/deep/factors.py": "FACTOR = 3\n",
    "shop_of_user.py": PROGRAM,
}
WORKER = """
import pickle, sys
shipment = pickle.load(sys.stdin.buffer)
from millpond.spark.ship import unpack
plan = unpack(shipment)
from kit_of_user import models
print(models.weight("abc"), models.__file__.endswith("models.py"), sorted(plan.program.entries))
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("shop_of_user").Shop
    for name in [name for name in sys.modules if name.startswith(("kit_of_user", "shop_of_user"))]:
        del sys.modules[name]


def test_what_a_module_of_the_user_imports_comes_with_it(shop):
    found = [source.name for source in sources_of(["kit_of_user.models", "json", "millpond.errors", "__main__"])]
    packages = ["kit_of_user", "kit_of_user.deep", "kit_of_user.deep.factors", "kit_of_user.deep.weights"]
    assert found == [*packages, "kit_of_user.models"]
    assert shop.__module__ == "shop_of_user"


def test_a_process_without_the_modules_runs_the_plan(shop, tmp_path):
    plan = ProgramPlan(compile_program(shop), Layout(128, 1, 1, aligned=False), (), "file:/none", str(tmp_path))
    shipment = pack(plan, shop)
    # As Spark ships it: by reference to Millpond alone.
    data = cloudpickle.dumps(shipment)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WORKER)],
        input=data,
        capture_output=True,
        env={"PYTHONHASHSEED": "0", "PATH": ""},
        check=False,
        cwd="/",
    )
    assert done.stdout.decode().split("\n")[0] == "9 True ['add']", done.stderr.decode()


def test_a_module_that_changed_is_run_again():
    def shipped(text):
        return [source._replace(name="changed_of_user", text=text) for source in sources_of(["tests.sizes"])[-1:]]

    offer(shipped("VALUE = 1\n"))
    assert importlib.import_module("changed_of_user").VALUE == 1
    offer(shipped("VALUE = 1\n"))
    first = importlib.import_module("changed_of_user")
    offer(shipped("VALUE = 2\n"))
    second = importlib.import_module("changed_of_user")
    assert (first.VALUE, second.VALUE) == (1, 2)
    del sys.modules["changed_of_user"]

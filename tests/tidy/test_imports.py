"""A room imports only the rooms before it, and only one room knows Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT, Module, imports, modules, parse

ROOMS = (
    "errors",
    "lengths",
    "spelling",
    "ids",
    "clock",
    "crashpoints",
    "keygroups",
    "graph",
    "state",
    "windowing",
    "program",
    "loops",
    "compiler",
    "storage",
    "checkpoint",
    "sinks",
    "engine",
    "testing",
    "spark",
    "sources",
    "front",
    "serve",
    "cli",
)

WITHOUT_SPARK = (
    "windowing",
    "program",
    "loops",
    "compiler",
    "storage",
    "checkpoint",
    "sinks",
    "engine",
    "testing",
    "cli",
)


def wrong_rooms(module: Module) -> list[str]:
    if not module.room:
        return []
    if module.room not in ROOMS:
        return [f"{module.path}: `{module.room}` is no room; give it its place in ROOMS"]
    wrong = []
    for node, name in imports(module):
        package, _, rest = name.partition(".")
        room = rest.split(".")[0]
        if package != "millpond":
            continue
        if room not in ROOMS:
            wrong.append(module.at(node, f"`{name}` is in no room; import it from where it is defined"))
        elif ROOMS.index(room) > ROOMS.index(module.room):
            wrong.append(module.at(node, f"`{module.room}` comes before `{room}` and must not import `{name}`"))
    return wrong


def spark_outside_its_room(module: Module) -> list[str]:
    if module.path.startswith("millpond/spark/"):
        return []
    return [
        module.at(node, f"`{name}` is imported outside millpond/spark")
        for node, name in imports(module)
        if name.split(".")[0] in {"pyspark", "py4j"}
    ]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("millpond/graph/model.py", "import millpond.state.containers.map"),
        ("millpond/graph/model.py", "from millpond import spark"),
        ("millpond/graph/model.py", "from millpond import cli"),
        ("millpond/graph/model.py", "from ..checkpoint import recovery"),
        ("millpond/graph/model.py", "from .. import checkpoint"),
        ("millpond/graph/model.py", "def late():\n    from millpond.program import Program"),
        ("millpond/cli/main.py", "from millpond import Program"),
        ("millpond/attic/old.py", "x = 1"),
    ],
)
def test_an_import_against_the_order_is_found(path, line):
    assert len(wrong_rooms(parse(line, path))) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("millpond/__init__.py", "from millpond.cli import main"),
        ("millpond/state/containers/map.py", "from millpond.graph import model"),
        ("millpond/state/containers/map.py", "from .codec import encode"),
        ("millpond/state/containers/map.py", "from ..errors import StateError"),
        ("millpond/state/containers/map.py", "from millpond import errors"),
        ("millpond/cli/main.py", "import typer, millpond.errors"),
    ],
)
def test_an_import_along_the_order_is_fine(path, line):
    assert wrong_rooms(parse(line, path)) == []


@pytest.mark.parametrize(
    "line", ["import pyspark", "from pyspark.sql import Row", "def f():\n    import py4j.java_gateway"]
)
def test_spark_in_another_room_is_found(line):
    assert len(spark_outside_its_room(parse(line, "millpond/checkpoint/commit/commit.py"))) == 1
    assert spark_outside_its_room(parse(line, "millpond/spark/step.py")) == []


def test_every_room_imports_only_rooms_before_it():
    assert [finding for module in modules("millpond") for finding in wrong_rooms(module)] == []


def test_spark_is_imported_in_its_room_alone():
    assert [finding for module in modules("millpond") for finding in spark_outside_its_room(module)] == []


def test_importing_rooms_does_not_load_spark():
    loaded = (
        f"import millpond.{room}; assert 'pyspark' not in sys.modules, '{room} loads it'" for room in WITHOUT_SPARK
    )
    script = "\n".join(["import sys", *loaded])
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

"""A run of all tests is the same every time: chance comes from tests/chance.py, and campaigns alone draw anew."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator

import pytest

from tests.tidy.tree import ROOT, Module, calls, imports, modules, nodes, parse

DRAWS = "tests/chance.py"
ABOUT_CHANCE = frozenset({DRAWS, "tests/tidy/test_chance.py"})
UNSEEDED = frozenset(
    {"uuid.uuid4", "uuid4", "uuid.uuid1", "os.urandom", "urandom", "random.Random", "Random", "random.SystemRandom"}
    | {"np.random.default_rng", "numpy.random.default_rng", "default_rng", "SystemRandom"}
)
"""Without arguments, these draw from the system."""

SHARED = re.compile(
    r"(random|np\.random|numpy\.random)\.(?!Random$|default_rng$|SystemRandom$|seed$|getstate$|setstate$)\w+"
)
"""Numbers of one source for the whole process: what a test draws hangs on who drew before it."""

SEEDED = frozenset(
    {"uuid.uuid4", "uuid4", "uuid.uuid1", "os.urandom", "urandom", "SystemRandom", "random.SystemRandom"}
)
"""These have no seed, whatever they are given."""


def chance(module: Module) -> Iterator[str]:
    """Draws that nobody can repeat."""
    if module.path in ABOUT_CHANCE:
        return
    for node, name in imports(module):
        if name.split(".")[0] == "secrets":
            yield module.at(node, f"`{name}` draws from the system; take tests/chance.py")
    for call, name in calls(module):
        drawn = name in SEEDED or (name in UNSEEDED and not call.args and not call.keywords)
        if drawn or SHARED.fullmatch(name):
            yield module.at(call, f"`{name}` draws what nobody can draw again; take fresh_seed() or a fixed seed")


LISTS = frozenset({"glob", "rglob", "iterdir", "scandir", "listdir"})
DRAWN = frozenset({"random", "choice", "choices", "randrange", "randint", "uniform", "sample", "shuffle"})


def unsorted(module: Module) -> Iterator[str]:
    """Listings of folders whose order decides what is drawn for which file: every file system has its own."""
    for node in nodes(module):
        if not isinstance(node, ast.For | ast.comprehension | ast.Call):
            continue
        # A loop over a listing that draws, or a draw from a listing.
        walked, drawing = (node.args, [node.func]) if isinstance(node, ast.Call) else ([node.iter], _inside(node))
        lists = [listed for one in walked for listed in _made_of(one) if _is_call(listed, LISTS)]
        if lists and any(isinstance(one, ast.Attribute) and one.attr in DRAWN for one in drawing):
            yield module.at(lists[0], "draws in the order of a folder's listing; sort it")


def _inside(loop: ast.For | ast.comprehension) -> list[ast.AST]:
    body = loop.body if isinstance(loop, ast.For) else loop.ifs
    return [node for one in body for node in ast.walk(one)]


def _made_of(expression: ast.expr) -> Iterator[ast.AST]:
    """What an expression is made of, without what it sorts."""
    if not _is_call(expression, {"sorted", "min", "max", "len"}):
        yield expression
        for part in ast.iter_child_nodes(expression):
            yield from _made_of(part)


def _is_call(node: ast.AST, names: Collection[str]) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (isinstance(called, ast.Name) and called.id in names) or (
        isinstance(called, ast.Attribute) and called.attr in names
    )


@pytest.mark.parametrize(
    "line",
    [
        "for path in folder.glob('*'):\n    if rng.random() < 0.5:\n        path.unlink()",
        "rng.choice(list(folder.iterdir()))",
        "[path for path in folder.rglob('*') if rng.random() < 0.5]",
    ],
)
def test_a_draw_that_hangs_on_the_order_of_a_folder_is_found(line):
    assert len(list(unsorted(parse(line)))) == 1
    assert list(unsorted(parse(re.sub(r"(folder\.\w+\([^)]*\))", r"sorted(\1)", line)))) == []


def test_no_draw_hangs_on_the_order_of_a_folder():
    assert [finding for module in modules("tests") for finding in unsorted(module)] == []


WAITS = frozenset(
    {"wait", "join", "get", "communicate", "run", "wait_procs", "timeout", "result", "create_connection", "poll"}
    | {"list_topics"}
)
ALONE = (".wait", ".join", ".poll", "mark.timeout")
"""Of these the only argument is the limit."""
CLOCKS = frozenset({"time.monotonic()", "time.time()", "time.perf_counter()", "_CLOCK.ticks()"})
LIMIT_SECONDS_MIN = 300


def impatient(module: Module) -> Iterator[str]:
    """Limits after which a test gives up although nothing is wrong: a machine may have much else to do."""
    constants = dict(_constants(module))
    for node, given in _limits(module):
        number = constants.get(given.id) if isinstance(given, ast.Name) else getattr(given, "value", None)
        # What is shorter than a second is a pause.
        if isinstance(number, int | float) and 1 <= number < LIMIT_SECONDS_MIN:
            yield module.at(node, f"gives up after {number} s; {LIMIT_SECONDS_MIN} at least")


def _limits(module: Module) -> Iterator[tuple[ast.AST, ast.expr]]:
    for call, name in calls(module):
        if name.rpartition(".")[2] in WAITS:
            alone = call.args if len(call.args) == 1 and name.endswith(ALONE) else []
            yield from ((call, given) for given in alone)
            yield from ((call, one.value) for one in call.keywords if one.arg == "timeout")
    for node in nodes(module):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and ast.unparse(node.left) in CLOCKS:
            yield node, node.right


def _constants(module: Module) -> Iterator[tuple[str, object]]:
    for node in nodes(module):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from ((one.id, node.value.value) for one in node.targets if isinstance(one, ast.Name))


@pytest.mark.parametrize(
    "line",
    [
        "process.wait(60)",
        "queue.get(timeout=5)",
        "subprocess.run(words, timeout=30.0)",
        "reader.poll(30)",
        "READY_S = 60.0\nuntil = time.monotonic() + READY_S",
        "WAIT = 20\nasked.wait(WAIT)",
    ],
)
def test_a_short_limit_is_found(line):
    assert len(list(impatient(parse(line)))) == 1


def test_no_test_gives_up_because_the_machine_is_busy():
    assert list(impatient(parse("process.wait(600)\nevent.wait(0.05)\nfolder.get(1)\n', '.join(xs)"))) == []
    shared = (module for module in modules("benchmarks") if module.path == SERVERS)
    assert [finding for module in (*modules("tests"), *shared) for finding in impatient(module)] == []


SERVERS = "benchmarks/servers.py"
"""What starts servers for benchmarks and tests."""


def borrowed_ports(module: Module) -> Iterator[str]:
    """Ports that the system chose, for somebody else to listen on: until then it may give them to any connection."""
    for call, name in calls(module):
        place = call.args[0] if name.endswith(".bind") and call.args else None
        last = place.elts[-1] if isinstance(place, ast.Tuple) and place.elts else None
        if isinstance(last, ast.Constant) and last.value == 0:
            yield module.at(call, f"takes any port; ask `free_port` of {SERVERS}")


def test_no_server_of_a_test_gets_a_port_that_others_can_take_before_it():
    assert len(list(borrowed_ports(parse("probe.bind(('127.0.0.1', 0))")))) == 1
    assert [
        finding
        for folder in ("tests", "benchmarks")
        for module in modules(folder)
        for finding in borrowed_ports(module)
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        "import secrets",
        "from secrets import token_hex",
        "uuid.uuid4()",
        "uuid4().hex",
        "os.urandom(3)",
        "random.random()",
        "random.sample(xs, 3)",
        "random.Random()",
        "np.random.default_rng()",
        "np.random.rand(3)",
    ],
)
def test_a_draw_that_nobody_can_repeat_is_found(line):
    assert len(list(chance(parse(line)))) == 1


def test_seeded_draws_are_left_alone():
    lines = "random.Random(3)\nnp.random.default_rng(1)\nself.random.random()\nrng.sample(xs, 2)\nuuid.UUID(int=1)"
    assert list(chance(parse(lines))) == []


def test_tests_draw_nothing_that_nobody_can_repeat():
    assert [finding for module in modules("tests") for finding in chance(module)] == []


def test_the_package_draws_from_the_system_only_names_that_nobody_compares():
    """UUIDs of checkpoints, staged files and jobs; what programs and campaigns draw follows from seeds."""
    drawing = {module.path for module in modules("millpond") for _ in chance(module)}
    assert {path.split("/")[1] for path in drawing} <= {"checkpoint", "storage", "engine", "spark"}
    assert not any(name.split(".")[0] == "secrets" for module in modules("millpond") for _, name in imports(module))


ASKED = """
import os, random, uuid
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

SEEN = []

@pytest.fixture(scope="module")
def shared():
    return uuid.uuid4().hex, random.random()

@given(st.integers(), st.text())
def test_drawn(number, text):
    SEEN.append((number, text))

def test_told(shared, request):
    told = (shared, uuid.uuid4().hex, random.random(), SEEN, str(hash("text")), sorted(os.environ.keys() & {names}))
    Path(request.config.rootpath, "told").write_text(repr(told))
"""


STRANGE = {"COLUMNS": "40", "FORCE_COLOR": "1", "AWS_PROFILE": "x", "SPARK_HOME": "/nowhere", "MILLPOND_SECRET": "00"}


@pytest.mark.slow
def test_two_runs_of_a_test_draw_the_same_whoever_runs_it(tmp_path):
    told = []
    # In a worker of xdist, which gets the seed of hashes with its environment; and in pytest's own.
    own = {**STRANGE, "PYTHONHASHSEED": "0"}
    for turn, (more, workers) in enumerate((({}, 1), (own, 0))):
        folder = tmp_path / str(turn)
        folder.mkdir()
        (folder / "test_asked.py").write_text(ASKED.replace("{names}", str(set(STRANGE))))
        (folder / "conftest.py").write_text("from tests.conftest import *\n")
        words = (
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            str(workers),
            "--rootdir",
            ".",
            "-c",
            "/dev/null",
        )
        done = subprocess.run(
            [sys.executable, *words, "-n", str(workers)],
            cwd=folder, env=_fresh() | more, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        told.append((folder / "told").read_text())
    assert told[0] == told[1]
    assert len(told[0]) > 300, "hypothesis has drawn"


def _fresh():
    kept = {key: value for key, value in os.environ.items() if key not in {"PYTHONHASHSEED", "CI", *STRANGE}}
    return {key: value for key, value in kept.items() if not key.startswith("PYTEST_")} | {"PYTHONPATH": str(ROOT)}


def test_every_campaign_can_be_started_and_takes_the_seed():
    campaigns = tomllib.loads((ROOT / "scripts" / "campaigns.toml").read_text(encoding="utf-8"))
    for name, campaign in campaigns.items():
        assert campaign.keys() == {"holds", "run"}, name
        assert campaign["run"][0] == "-m", name
        module = campaign["run"][1]
        if module != "pytest":
            assert "{seed}" in campaign["run"], name
            place = ROOT / module.replace(".", "/")
            assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), name

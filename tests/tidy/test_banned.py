"""What the package must not do: run code out of data, ask the clock behind our back, reach into the JVM."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from tests.tidy.tree import Module, calls, imports, modules, nodes, parse

SERIALISERS = frozenset({"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle"})
# Ships functions to Spark's own workers, which unpickle them anyway; nothing of it is durable.
SHIPS_CODE = "millpond/spark/ship.py"
RUNS_CODE = "millpond/compiler/back/codegen.py"
TELLS_TIME = "millpond/clock.py"
JVM_ATTRIBUTES = frozenset({"_jvm", "_jsc", "_jdf", "_jsparkSession", "_sc", "rdd", "sparkContext"})
PUBLIC_SPARK = frozenset(
    {
        *("pyspark", "pyspark.errors", "pyspark.logger", "pyspark.sql", "pyspark.sql.datasource"),
        *("pyspark.sql.avro.functions", "pyspark.sql.functions", "pyspark.sql.streaming", "pyspark.sql.types"),
    }
)
"""The modules that the API reference of PySpark documents, as far as they are used."""

PRIVATE_ATTRIBUTES = frozenset({"_jvm", "_jsc", "_jdf", "_jsparkSession", "_jc", "_jseq", "_jcols", "_jmap"})
JVM_NAMES = frozenset({"SparkContext", "SparkConf", "RDD"})

Rule = Callable[[Module], Iterator[str]]


def serialisers(module: Module) -> Iterator[str]:
    """No pickle and its kin: loading a checkpoint must never run code."""
    if module.path != SHIPS_CODE:
        for node, name in imports(module):
            if SERIALISERS & set(name.split(".")):
                yield module.at(node, f"`{name}` runs code when it loads")


def loading_code(module: Module) -> Iterator[str]:
    """Readers that may run what they read, whatever module they come from."""
    for node, name in calls(module):
        allows = any(
            word.arg == "allow_pickle" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
            for word in node.keywords
        )
        if name.split(".")[-1] == "read_pickle" or name in {"yaml.load", "yaml.unsafe_load", "torch.load"} or allows:
            yield module.at(node, f"`{name}` may run code that it reads")


def running_text(module: Module) -> Iterator[str]:
    """Only the code generator turns text into code."""
    for node, name in calls(module):
        if name in {"eval", "exec", "builtins.eval", "builtins.exec"} and module.path != RUNS_CODE:
            yield module.at(node, f"`{name}` outside {RUNS_CODE}")


def unstable_hash(module: Module) -> Iterator[str]:
    """The built-in hash differs between processes."""
    for node, name in calls(module):
        if name in {"hash", "builtins.hash"}:
            yield module.at(node, "`hash` differs between processes; use keygroups")


def hidden_time(module: Module) -> Iterator[str]:
    """Time comes through the clock, so that a test can turn it."""
    if module.path == TELLS_TIME:
        return
    for node, name in imports(module):
        if name.split(".")[0] == "time":
            yield module.at(node, "`time` outside millpond/clock.py")
    for call, name in calls(module):
        owner, _, method = name.rpartition(".")
        if method in {"now", "utcnow", "today"} and owner.split(".")[-1] in {"datetime", "date"}:
            yield module.at(call, f"`{name}` outside millpond/clock.py")


def printing(module: Module) -> Iterator[str]:
    """Only the command line speaks to the terminal."""
    for node, name in calls(module):
        if name == "print" and module.room != "cli":
            yield module.at(node, "`print` outside the command line")


def shells(module: Module) -> Iterator[str]:
    """No shell reads what we pass to a command."""
    for node, name in calls(module):
        if name in {"os.system", "os.popen"} or any(
            word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
            for word in node.keywords
        ):
            yield module.at(node, "a shell is asked to run a command")


def jvm_access(module: Module) -> Iterator[str]:
    """No RDD, no SparkContext, no `_jvm`: Spark Connect has none of them. Names for Spark's UI are none of a result."""
    if module.path == "millpond/spark/reporting/jobnames.py":
        return
    for node in nodes(module):
        if isinstance(node, ast.Attribute) and node.attr in JVM_ATTRIBUTES:
            yield module.at(node, f"`.{node.attr}` does not exist on Spark Connect")
    for node, name in imports(module):
        if name.split(".")[0] == "pyspark" and name.split(".")[-1] in JVM_NAMES:
            yield module.at(node, f"`{name}` does not exist on Spark Connect")


def private_spark(module: Module) -> Iterator[str]:
    """What Spark's documentation does not name changes from one minor version to the next."""
    for node, name in imports(module):
        room, _, wanted = name.rpartition(".")
        # Of packages only classes are imported: what is written small there is a module.
        named = wanted[:1].isupper() or (room not in {"pyspark", "pyspark.sql"} and not wanted.startswith("_"))
        public = name in PUBLIC_SPARK or (room in PUBLIC_SPARK and named)
        if name.split(".")[0] == "pyspark" and not public:
            yield module.at(node, f"`{name}` is private to PySpark")
    for node in nodes(module):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE_ATTRIBUTES:
            yield module.at(node, f"`.{node.attr}` is private to PySpark")


def left_undone(module: Module) -> Iterator[str]:
    """What is not there yet is left out, not stubbed."""
    for node in nodes(module):
        if isinstance(node, ast.Raise) and node.exc and "NotImplementedError" in ast.unparse(node.exc):
            yield module.at(node, "a stub")


def compared_codes(module: Module) -> Iterator[str]:
    """Errors are told apart by their classes; codes are for people. The compiler still sorts refusals by theirs."""
    if module.room == "compiler":
        return
    for node in nodes(module):
        if isinstance(node, ast.Compare):
            codes = [isinstance(side, ast.Attribute) and side.attr == "code" for side in (node.left, *node.comparators)]
            if any(codes) and not all(codes):
                yield module.at(node, "an error is told by its code")


BAD: dict[Rule, tuple[str, ...]] = {
    compared_codes: ('error.code == "MP304"', "error.code != _MISSING", 'error.code not in {"MP301", "MP334"}'),
    serialisers: ("import pickle", "import cloudpickle", "def f():\n    from marshal import loads"),
    loading_code: (
        "pd.read_pickle(path)",
        "yaml.load(text)",
        "np.load(path, allow_pickle=True)",
        "np.save(path, array, allow_pickle=flag)",
    ),
    running_text: ("eval('1')", "exec(text)", "builtins.exec(text)"),
    unstable_hash: ("hash(key)", "x = hash((1, 2)) % 8"),
    hidden_time: (
        "import time",
        "from time import perf_counter",
        "datetime.now()",
        "dt.datetime.utcnow()",
        "date.today()",
    ),
    printing: ("print('x')",),
    shells: ("subprocess.run('ls', shell=True)", "run(line, shell=flag)", "os.system('ls')"),
    jvm_access: ("spark._jvm.x", "df.rdd.count()", "spark.sparkContext", "from pyspark import SparkContext"),
    private_spark: (
        "from pyspark.sql.pandas.types import to_arrow_type",
        "from pyspark import cloudpickle",
        "import pyspark.sql.connect.session",
        "from pyspark.sql.streaming.query import StreamingQuery",
        "from pyspark.sql.functions import _invoke",
        "frame._jdf.queryExecution()",
    ),
    left_undone: ("raise " + "NotImplementedError", "raise " + "NotImplementedError('later')"),
}

FINE: dict[Rule, tuple[str, str]] = {
    compared_codes: ("millpond/cli/check.py", "one.code == error.code\nfound = error.code"),
    serialisers: (SHIPS_CODE, "import cloudpickle"),
    loading_code: ("millpond/state/codec/wire.py", "np.load(path, allow_pickle=False)\nyaml.safe_load(text)"),
    running_text: (RUNS_CODE, "exec(code, names)"),
    unstable_hash: ("millpond/keygroups.py", "keygroups.hash(key)\nself.hash()"),
    hidden_time: (TELLS_TIME, "import time"),
    printing: ("millpond/cli/commands.py", "print('x')"),
    shells: ("millpond/spark/java.py", "subprocess.run(['java'], shell=False)"),
    jvm_access: ("millpond/spark/step.py", "from pyspark import TaskContext\nTaskContext.get().partitionId()"),
    private_spark: (
        "millpond/spark/step.py",
        "from pyspark.sql import functions as F\nfrom pyspark import TaskContext\nself._client_of.x",
    ),
    left_undone: ("millpond/state/containers/map.py", "raise StateError('MP201', 'x')"),
}


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in BAD.items() for line in lines])
def test_a_bad_line_is_found(rule, line):
    assert len(list(rule(parse(line)))) == 1


@pytest.mark.parametrize("rule", FINE)
def test_a_good_line_is_left_alone(rule):
    path, line = FINE[rule]
    assert list(rule(parse(line, path))) == []


@pytest.mark.parametrize("rule", BAD)
def test_the_package_keeps_the_rule(rule):
    assert [finding for module in modules("millpond") for finding in rule(module)] == []


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples", "scripts"])
def test_nothing_else_uses_what_is_private_to_spark_either(folder):
    assert [finding for module in modules(folder) for finding in private_spark(module)] == []

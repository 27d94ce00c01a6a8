"""The Python of Spark's workers: that it can import what a program needs, and walks sets as every other one does.

Spark starts workers with `PYSPARK_PYTHON`, or with whatever `python3` is on the path, which in a virtual environment
that is not activated is another Python than the driver's. What can be told on the driver is told before anything runs
(`check_interpreter`), the rest when a worker fails (`worker_refusal`).

All workers have the hash seed 0, since they would walk sets in different orders else. PySpark gives it to the workers
of a classic session unless the driver's environment says otherwise; a Connect server gives none, and its executors have
what their environment says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from millpond.errors import SetupError

HASH_SEED: Final = "PYTHONHASHSEED"
WORKER_PYTHON: Final = "PYSPARK_PYTHON"

_DEFAULT_PYTHON: Final = "python3"
"""What PySpark starts if nothing is said."""

_PACKAGE: Final = __name__.partition(".")[0]
_NEEDED: Final = (_PACKAGE, "msgspec", "numpy", "pyarrow", "lmdb", "cloudpickle")
"""What a worker imports; PySpark is brought by Spark."""

_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OTHER_VERSION: Final = "PYTHON_VERSION_MISMATCH"
_AT_RANDOM: Final = "MP704"
_PROBE: Final = f"import importlib.util; print(*(name for name in {_NEEDED!r} if not importlib.util.find_spec(name)))"
_PROBE_SECONDS: Final = 30


def check_interpreter(spark: SparkSession) -> None:
    """Refuse a session on this host whose workers would run another Python, one that has no Millpond (MP703).

    Files that are shipped to the workers may hold anything, so with these nothing is said.
    """
    if spark.conf.get("spark.submit.pyFiles", None):
        return
    named, found = worker_python()
    if found is None:
        raise _no_module(_PACKAGE, f"{named}, and there is no such program")
    missing = missing_modules(found)
    if missing:
        raise _no_module(missing[0], f"{named} ({found}), which has none")


def worker_python() -> tuple[str, str | None]:
    """Return the Python that Spark starts workers with on this host, as it is named, and where that is, if anywhere."""
    named = os.environ.get(WORKER_PYTHON) or _DEFAULT_PYTHON
    return named, shutil.which(named)


def _same_place(one: str, other: str) -> bool:
    # Interpreters of virtual environments are links to one program: what tells them apart is where the links lie.
    return Path(one).parent.resolve() == Path(other).parent.resolve()


def missing_modules(python: str) -> list[str]:
    """Return what a worker needs and a Python lacks, in the order of need; a program that is no Python lacks all."""
    if _same_place(python, sys.executable):
        return []
    try:
        done = subprocess.run(  # noqa: S603 - Spark starts it, too
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return list(_NEEDED)
    return done.stdout.split()


def check_hash_seed() -> None:
    """Refuse to run on a worker whose hashes of text differ from those of other workers (MP704)."""
    if sys.flags.hash_randomization:
        raise _at_random(os.environ.get(HASH_SEED))


def worker_refusal(text: str) -> SetupError | None:
    """Return the error that a worker failed with, if its Python is at fault; `text` is what Spark tells of it."""
    if f"SetupError: {_AT_RANDOM} " in text:
        told = re.search(rf"{HASH_SEED}=(\S+)", text.partition("found")[2])
        return _at_random(told[1] if told else None)
    missing = _MISSING.search(text)
    if missing is not None:
        return _no_module(missing[1], "a Python that has none")
    if _OTHER_VERSION in text:
        return _no_module(_PACKAGE, "a Python of another version")
    return None


def _no_module(name: str, found: str) -> SetupError:
    ours = name.partition(".")[0] in (*_NEEDED, "pyspark")
    ship = "" if ours else "install it where the workers run, or ship it by spark.addArtifacts(path, pyfile=True); "
    return SetupError(
        "MP703",
        f"the Python workers of Spark can't import `{name}`",
        expected=f"workers that run the driver's Python, {sys.executable}",
        found=found,
        hint=f"{ship}set PYSPARK_PYTHON before the session is made: PYSPARK_PYTHON={sys.executable}; "
        "on a cluster, to a Python that has the same packages on every host",
    )


def _at_random(seed: str | None) -> SetupError:
    return SetupError(
        _AT_RANDOM,
        "the Python workers of Spark have the wrong hash seed",
        expected="PYTHONHASHSEED=0 in every worker, so that each walks a set in the same order",
        found=f"{HASH_SEED}={seed}" if seed else f"{HASH_SEED} is not set, so each process has its own",
        hint="start the driver with PYTHONHASHSEED=0 or without it; for a Spark Connect server and its executors, "
        "start the server with PYTHONHASHSEED=0 and with --conf spark.executorEnv.PYTHONHASHSEED=0",
    )

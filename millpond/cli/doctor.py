"""What a machine needs to run Millpond, looked at piece by piece.

>>> python_finding((3, 9, 4)).advice
'make the environment again with Python 3.11 or newer'
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich import box
from rich.table import Table

from millpond.cli.terminal import json_of
from millpond.clock import SystemClock
from millpond.errors import SetupError

GIB = 1024**3

PYTHON_MIN = (3, 11)

PACKAGES_MIN = {
    "pyspark": "4.1",
    "pandas": "2.2",
    "pyarrow": "18",
    "numpy": "1.26",
    "lmdb": "1.6",
    "msgspec": "0.19",
}
"""The lower bounds of pyproject.toml; a test compares them."""

MEMORY_BYTES_MIN = 2 * GIB
"""Spark's driver takes one GiB; the Python workers and the page cache need as much again."""

DISK_BYTES_MIN = GIB
"""A shuffle and a small checkpoint must fit."""


class Status(Enum):
    """What was found out about one thing."""

    OK = "ok"
    MISSING = "missing"
    TOO_OLD = "too old"
    LOW = "low"
    FAILS = "fails"


STOPPING = frozenset({Status.MISSING, Status.TOO_OLD, Status.FAILS})
"""Millpond does not run with one of these; a low resource only limits it."""

_COLOURS = {Status.OK: "green", Status.LOW: "yellow"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `advice` says what to do unless all is well."""

    name: str
    status: Status
    found: str
    advice: str = ""

    def __post_init__(self) -> None:
        assert (self.status is Status.OK) == (not self.advice), self


def examine(*, spark: bool = False) -> list[Finding]:
    """Look at everything; start a local Spark too if asked."""
    findings = [python_finding(sys.version_info[:3]), _java(), *_packages(), _cores(), _memory(), _disk(Path.cwd())]
    findings.append(temporary_finding(Path(tempfile.gettempdir())))
    findings += [*_connectors(), _workers()]
    if spark:
        findings.append(_session())
    return findings


def healthy(findings: list[Finding]) -> bool:
    """Tell whether nothing that Millpond needs is missing."""
    return not any(finding.status in STOPPING for finding in findings)


def as_json(findings: list[Finding]) -> str:
    """Render the findings as one JSON object."""
    report = {"ok": healthy(findings), "checks": [asdict(finding) for finding in findings]}
    return json_of(report)


def as_table(findings: list[Finding]) -> Table:
    """Render the findings for people."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    for overflow in ("ellipsis", "ellipsis", "fold"):
        table.add_column(overflow=overflow)
    for finding in findings:
        colour = _COLOURS.get(finding.status, "red")
        table.add_row(f"[{colour}]{finding.status.value}[/]", finding.name, _literal(finding.found))
        if finding.advice:
            table.add_row("", "", _literal(finding.advice))
    return table


def _literal(text: str) -> str:
    return text.replace("[", r"\[")


def python_finding(found: tuple[int, ...]) -> Finding:
    """Compare the version of Python with the oldest one that will do."""
    text = ".".join(map(str, found))
    if found >= PYTHON_MIN:
        return Finding("Python", Status.OK, f"{text} ({sys.executable})")
    return Finding("Python", Status.TOO_OLD, text, "make the environment again with Python 3.11 or newer")


def _java() -> Finding:
    from millpond.spark.java import find_java

    try:
        java = find_java()
    except SetupError as error:
        return Finding("Java", Status.MISSING, error.found or error.summary, error.hint or error.summary)
    return Finding("Java", Status.OK, f"{java.version} from {java.origin.value} ({java.home})")


def _packages() -> Iterator[Finding]:
    for name, oldest in PACKAGES_MIN.items():
        yield package_finding(name, oldest)


def package_finding(name: str, oldest: str) -> Finding:
    """Compare the installed version of a package with the oldest one that will do."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, Status.MISSING, "not installed", f'run `pip install "{name}>={oldest}"`')
    if _numbers(found) < _numbers(oldest):
        return Finding(name, Status.TOO_OLD, f"{found}, older than {oldest}", f'run `pip install "{name}>={oldest}"`')
    return Finding(name, Status.OK, found)


def _connectors() -> Iterator[Finding]:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return
    from millpond.spark.connectors import CONNECTORS, SETTINGS, minor_of

    if minor_of(found) not in CONNECTORS:
        known = ", ".join(CONNECTORS)
        yield Finding("Spark", Status.LOW, f"{found}, which no test ran on", f"tested with Spark {known}")
    for name in SETTINGS:
        yield connector_finding(name, found)


def connector_finding(name: str, spark: str) -> Finding:
    """Name the connector that fits a version of Spark, or the newest Spark that has one."""
    from millpond.spark.connectors import CONNECTORS, minor_of, newest_with

    jar = CONNECTORS.get(minor_of(spark), {}).get(name)
    if jar is not None:
        return Finding(f"connector {name}", Status.OK, jar)
    advice = f'if you need it: pip install "pyspark=={newest_with(name)}.*"'
    return Finding(f"connector {name}", Status.LOW, f"none is published for Spark {minor_of(spark)}", advice)


def _workers() -> Finding:
    try:
        from millpond.spark.interpreter import WORKER_PYTHON, missing_modules, worker_python
    except ImportError:
        return Finding("workers' Python", Status.MISSING, "no PySpark to ask", "install pyspark")
    named, found = worker_python()
    # Unless somebody chose it, a local session of Millpond chooses the right one.
    bad = Status.FAILS if os.environ.get(WORKER_PYTHON) else Status.LOW
    if found is None:
        return Finding("workers' Python", bad, f"{named}: no such program", _same_python())
    lacking = missing_modules(found)
    if lacking:
        return Finding("workers' Python", bad, f"{named} ({found}) lacks {', '.join(lacking)}", _same_python())
    return Finding("workers' Python", Status.OK, f"{named} ({found})")


def _same_python() -> str:
    return f"set PYSPARK_PYTHON={sys.executable} before the session is made, or install the packages there"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", Status.OK, str(count))


def _memory() -> Finding:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return resource_finding("memory", size, MEMORY_BYTES_MIN, "use a machine with more memory, or fewer cores")


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    return resource_finding("free disk", free, DISK_BYTES_MIN, f"free some space on the disk of {folder}")


def temporary_finding(folder: Path) -> Finding:
    """Look whether others could put something in the place of local stores, which lie there without a `local_root`."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        advice = f"run `chmod +t {folder}`, or give jobs a local_root of their own"
        return Finding("temporary folder", Status.LOW, f"{folder}: others may rename what is yours", advice)
    return Finding("temporary folder", Status.OK, str(folder))


def resource_finding(name: str, size_bytes: int, size_bytes_min: int, advice: str) -> Finding:
    """Compare what there is of a resource with what a small job needs."""
    found = f"{size_bytes / GIB:.1f} GiB"
    if size_bytes >= size_bytes_min:
        return Finding(name, Status.OK, found)
    return Finding(name, Status.LOW, f"{found}, less than {size_bytes_min / GIB:.0f} GiB", advice)


def _session() -> Finding:
    clock = SystemClock()
    began = clock.ticks()
    try:
        from millpond.spark.session import local_session

        spark = local_session("millpond doctor", cores=1)
        rows = spark.range(10).count()
        spark.stop()
    except Exception as error:  # noqa: BLE001 - whatever it is, the report names it
        reason = str(error).strip().split("\n")[0] or "no reason given"
        return Finding("local Spark", Status.FAILS, f"{type(error).__name__}: {reason}", "see the lines above this one")
    assert rows == 10, rows
    return Finding("local Spark", Status.OK, f"started and counted in {clock.ticks() - began:.1f} s")

"""The page on versions says what the table of connectors, the package and the Makefile say."""

from __future__ import annotations

import re
import tomllib

from millpond.spark.connectors import CONNECTORS
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "VERSIONS.md").read_text(encoding="utf-8")
MAKE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def rows(first):
    found = re.findall(rf"^\| ({first}\S*) \|(.*)\|$", PAGE, re.MULTILINE)
    return {name: [cell.strip().strip("`") for cell in cells.split("|")] for name, cells in found}


def named(variable):
    return re.search(rf"^{variable} \?= (.*)$", MAKE, re.MULTILINE)[1].split()


def test_the_page_names_the_connectors_of_the_table():
    shown: dict[str, dict[str, str]] = {spark: {} for spark in rows(r"4\.")}
    for name, spark, jar in re.findall(r"^\| (\w+) \| (4\.\d+) \| `(\S+)` \|$", PAGE, re.MULTILINE):
        shown[spark][name] = jar
    assert shown == {spark: dict(there) for spark, there in CONNECTORS.items()}


def test_each_spark_is_tested_where_the_page_says():
    by = {spark: cells[0] for spark, cells in rows(r"4\.").items()}
    assert [spark for spark, where in by.items() if where == "make versions"] == named("SPARK_VERSIONS")
    assert [where for where in by.values() if where == "make test"] == ["make test"]
    (least,) = [one for one in PROJECT["dependencies"] if one.startswith("pyspark")]
    assert least == f"pyspark>={next(iter(CONNECTORS))}"


def test_each_python_is_declared_and_tested():
    by = {python: cells[0] for python, cells in rows(r"3\.").items()}
    assert [python for python, where in by.items() if where == "make versions"] == named("PYTHON_VERSIONS")
    declared = [one.split(":: ")[-1] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", one)]
    assert declared == list(by)
    assert PROJECT["requires-python"] == f">={declared[0]}"

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from millpond.cli import app, doctor
from millpond.cli.doctor import Finding, Status, package_finding, python_finding, resource_finding, temporary_finding
from millpond.errors import SetupError
from millpond.spark import java
from millpond.spark.connectors import CONNECTORS

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"

FINE = Finding("Java", Status.OK, "17")
LOW = Finding("memory", Status.LOW, "1.0 GiB", "use a machine with more memory")
GONE = Finding("lmdb", Status.MISSING, "not installed", 'run `pip install "lmdb>=1.6"`')


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_this_machine_is_healthy():
    result = invoke("--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["ok"] is True
    names = [check["name"] for check in report["checks"]]
    packages = ["pyspark", "pandas", "pyarrow", "numpy", "lmdb", "msgspec"]
    fits = ["connector kafka", "connector delta", "connector iceberg", "workers' Python"]
    assert names == ["Python", "Java", *packages, "cores", "memory", "free disk", "temporary folder", *fits]


def test_connectors_that_fit_are_named_and_others_say_which_spark_has_them():
    fits = doctor.connector_finding("delta", "4.1.4")
    assert (fits.status, fits.found) == (Status.OK, CONNECTORS["4.1"]["delta"])
    none = doctor.connector_finding("iceberg", "4.3.0")
    assert (none.status, none.found) == (Status.LOW, "none is published for Spark 4.3")
    assert 'pip install "pyspark==4.1.*"' in none.advice


def test_what_the_python_of_the_workers_lacks_is_named(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho millpond lmdb\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    found = doctor._workers()
    assert found.status is Status.FAILS
    assert "lacks millpond, lmdb" in found.found
    assert "PYSPARK_PYTHON=" in found.advice
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    assert "no such program" in doctor._workers().found
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor._workers().status is Status.OK


def test_the_report_says_what_to_do(monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda **_: [FINE, LOW, GONE])
    result = invoke()
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert [line for line in lines if line] == [
        "ok Java 17",
        "low memory 1.0 GiB",
        "use a machine with more memory",
        "missing lmdb not installed",
        'run `pip install "lmdb>=1.6"`',
    ]


def test_a_low_resource_is_no_failure(monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda **_: [FINE, LOW])
    assert invoke().exit_code == 0


def test_json_of_a_bad_machine_is_not_ok(monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda **_: [GONE])
    result = invoke("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "ok": False,
        "checks": [{"name": "lmdb", "status": "missing", "found": "not installed", "advice": GONE.advice}],
    }


def test_brackets_in_advice_reach_the_reader(monkeypatch):
    def no_java():
        raise SetupError("MP701", "no Java", found="no Java at all", hint='run `pip install "millpond[java]"`')

    monkeypatch.setattr(java, "find_java", no_java)
    result = invoke()
    assert result.exit_code == 1
    assert 'pip install "millpond[java]"' in result.stdout


@pytest.mark.parametrize(("oldest", "status"), [("8.0", Status.OK), ("9999", Status.TOO_OLD)])
def test_a_package_is_compared_by_number(oldest, status):
    assert package_finding("pytest", oldest).status is status


def test_an_absent_package_is_missing():
    finding = package_finding("no-such-package-at-all", "1.2")
    assert finding.status is Status.MISSING
    assert finding.advice == 'run `pip install "no-such-package-at-all>=1.2"`'


@pytest.mark.parametrize(
    ("found", "status"), [((3, 11, 0), Status.OK), ((3, 13, 1), Status.OK), ((3, 9, 18), Status.TOO_OLD)]
)
def test_python_is_compared_by_number(found, status):
    assert python_finding(found).status is status


@pytest.mark.parametrize(("size_bytes", "status"), [(1023, Status.LOW), (1024, Status.OK)])
def test_a_resource_is_low_below_its_limit(size_bytes, status):
    assert resource_finding("disk", size_bytes, 1024, "free some").status is status


def test_a_spark_that_does_not_start_is_reported(monkeypatch):
    def broken(*_, **__):
        raise SetupError("MP701", "no Java that Spark can run on")

    from millpond.spark import session

    monkeypatch.setattr(session, "local_session", broken)
    finding = doctor.examine(spark=True)[-1]
    assert (finding.name, finding.status) == ("local Spark", Status.FAILS)
    assert finding.found == "SetupError: MP701 no Java that Spark can run on"


def test_the_bounds_are_those_of_the_package():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    bounds = dict(re.match(r"(\w+)>=([\d.]+)", line).groups() for line in project["dependencies"])
    assert {name: bounds[name] for name in doctor.PACKAGES_MIN} == doctor.PACKAGES_MIN
    assert project["requires-python"] == ">=" + ".".join(map(str, doctor.PYTHON_MIN))


@pytest.mark.parametrize(("mode", "status"), [(0o1777, "ok"), (0o700, "ok"), (0o755, "ok"), (0o777, "low")])
def test_a_temporary_folder_in_which_others_may_rename_is_told(tmp_path, mode, status):
    tmp_path.chmod(mode)
    found = temporary_finding(tmp_path)
    assert found.status.value == status
    tmp_path.chmod(0o700)

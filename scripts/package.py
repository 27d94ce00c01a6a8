"""Builds the sdist and the wheel into dist/, and looks whether they hold what they should: `make package`.

With a tag, as `v0.2.0`, the version must be the one that it names.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import millpond

ROOT = Path(__file__).parents[1]

IN_SDIST = ("tests/conftest.py", "docs/FORMAT.md", "examples/bank.py", "scripts/setup.sh", "Makefile", "setup.py")
IN_WHEEL = ("millpond/__init__.py", "millpond/py.typed", "millpond/spark/quiet.log4j2.properties")


def main() -> None:
    """Build, look, and say what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    asked = parser.parse_args()
    if asked.tag and asked.tag != f"v{millpond.__version__}":
        sys.exit(f"package: the tag {asked.tag} is not v{millpond.__version__}, the version in millpond/__init__.py")
    asked.to.mkdir(parents=True, exist_ok=True)
    sdist, wheel = build(asked.to)
    wrong = [*wrong_sdist(sdist), *wrong_wheel(wheel)]
    if wrong:
        sys.exit("\n".join(f"package: {one}" for one in wrong))
    print(f"package: {sdist.name}, {wheel.name}")


def build(folder: Path) -> tuple[Path, Path]:
    """Build both, without an environment of their own: the tools of tests have what it takes."""
    # One after the other, since each changes what the process was called with.
    code = "import sys; from setuptools import build_meta as b; to = sys.argv[1]; b.build_sdist(to); b.build_wheel(to)"
    words = [sys.executable, "-c", code, str(folder.resolve())]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - words of our own
    version = f"millpond-{millpond.__version__}"
    return folder / f"{version}.tar.gz", folder / f"{version}-py3-none-any.whl"


def wrong_sdist(file: Path) -> list[str]:
    """Return what a source distribution lacks."""
    with tarfile.open(file) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    return [f"{file.name} lacks {name}" for name in IN_SDIST if name not in names]


def wrong_wheel(file: Path) -> list[str]:
    """Return what a wheel lacks, and what does not belong into it: tests, fuzzers, benchmarks."""
    with zipfile.ZipFile(file) as found:
        names = set(found.namelist())
    lacking = [f"{file.name} lacks {name}" for name in IN_WHEEL if name not in names]
    own = f"millpond-{millpond.__version__}.dist-info/"
    strange = [name for name in names if not name.startswith(("millpond/", own)) or "fuzz" in name]
    return lacking + [f"{file.name} holds {name}" for name in sorted(strange)]


if __name__ == "__main__":
    main()

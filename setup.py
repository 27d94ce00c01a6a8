"""What pyproject.toml can't say: the README as a package index shows it, where links into the repository lead nowhere.

With a `Source` among [project.urls] they are links to the tag of this version; without one, pages have their names.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"\[([^\[\]]+)\]\((?!https?://|#)([^()\s]+)\)")


def shown(text: str, source: str | None, version: str) -> str:
    """Return the README as it reads outside of the repository."""
    if source is not None:
        return LINK.sub(rf"[\1]({source.rstrip('/')}/blob/v{version}/\2)", text)
    return LINK.sub(lambda link: link[1] if link[1].strip("`") in link[2] else f"{link[1]} (`{link[2]}`)", text)


def readme() -> str:
    """Return the README for this version, with the address that the project has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = re.search(
        r'^__version__ = "(.*)"$', (ROOT / "millpond/__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert said is not None
    return shown((ROOT / "README.md").read_text(encoding="utf-8"), project.get("urls", {}).get("Source"), said[1])


if __name__ == "__main__":
    setup(long_description=readme(), long_description_content_type="text/markdown")

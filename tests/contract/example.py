"""The backend that docs/BACKENDS.md shows, run as it stands there; importing this module registers it."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "BACKENDS.md"
LINES_MAX = 100


def example_code() -> str:
    (code,) = re.findall(r'```python\n("""A storage in SQLite.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return code


def example_module() -> str:
    """The name by which a child imports it too."""
    return __name__


exec(compile(example_code(), str(PAGE), "exec"), {"__name__": "example_of_the_page"})

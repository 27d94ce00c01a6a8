"""The Python blocks of README.md, as one program with and one without those that need Spark."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]

NEEDS_SPARK = "<!-- needs spark -->\n"
BLOCK = re.compile(rf"({re.escape(NEEDS_SPARK)})?```python\n(.*?)```", re.DOTALL)


def program(*, spark: bool) -> str:
    """All blocks in their order; those that need Spark only if there is one."""
    return "\n".join(code for mark, code in blocks("README.md") if spark or not mark)


def blocks(page: str) -> list[tuple[bool, str]]:
    """The blocks of a page that has both kinds, each with whether it needs Spark."""
    found = [(bool(mark), code) for mark, code in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert {mark for mark, _ in found} == {True, False}, f"{page} has blocks of both kinds"
    return found

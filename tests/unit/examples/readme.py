"""The Python blocks of README.md, as one program with and one without those that need Spark."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]

NEEDS_SPARK = "<!-- needs spark -->\n"
BLOCK = re.compile(rf"({re.escape(NEEDS_SPARK)})?```python\n(.*?)```", re.DOTALL)


def program(*, spark: bool) -> str:
    """All blocks in their order; those that need Spark only if there is one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [(bool(mark), code) for mark, code in BLOCK.findall(text)]
    assert {mark for mark, _ in blocks} == {True, False}, "README.md has blocks of both kinds"
    return "\n".join(code for mark, code in blocks if spark or not mark)

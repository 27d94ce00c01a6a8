"""The Python of docs/LOOPS.md and docs/GRAPHS.md, run as one program each."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import millpond.loops

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("page", "count"), [("LOOPS", 2), ("GRAPHS", 2)])
def test_the_page_does_what_it_says(page, count, tmp_path):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == count
    module = tmp_path / "page.py"
    module.write_text("\n".join(blocks), encoding="utf-8")
    runpy.run_path(str(module))


def test_every_public_name_is_told():
    told = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8") for page in ("LOOPS", "GRAPHS"))
    plumbing = {"Condition", "LoopWindow", "Ready", "Synchrony"}
    assert [name for name in millpond.loops.__all__ if name not in plumbing and f"{name}" not in told] == []

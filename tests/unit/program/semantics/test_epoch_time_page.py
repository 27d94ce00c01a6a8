"""The Python of docs/TIME.md, run as one program."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from millpond.compiler.compile import compile_program

PAGE = Path(__file__).parents[4] / "docs" / "TIME.md"


def test_the_page_does_what_it_says(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    module = tmp_path / "page.py"
    module.write_text("\n".join(["from datetime import UTC", *blocks]), encoding="utf-8")
    names = runpy.run_path(str(module))
    assert list(compile_program(names["Sessions"]).entries) == ["click", "over"]

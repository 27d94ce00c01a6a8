"""The Python of docs/TESTING.md, run as one program."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from millpond import testing

PAGE = (Path(__file__).parents[3] / "docs" / "TESTING.md").read_text(encoding="utf-8")


def test_the_page_does_what_it_says(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") > 5
    module = tmp_path / "page.py"
    module.write_text("\n".join(blocks), encoding="utf-8")
    runpy.run_path(str(module))


def test_the_page_names_all_that_the_kit_has():
    words = set(re.findall(r"\w+", PAGE))
    beside = {"EpochReport", "Fault", "Run"}
    assert [name for name in testing.__all__ if name not in words | beside] == []

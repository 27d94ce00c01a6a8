from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from millpond import MillpondError, Program
from millpond.compiler.compile import compile_program

PAGE = Path(__file__).parents[3] / "docs" / "LIMITATIONS.md"
BLOCK = re.compile(r"```python (refused MP\d{3}|instead)\n(.*?)```", re.DOTALL)

BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
REFUSED = [(mark.split()[1], code) for mark, code in BLOCKS if mark.startswith("refused")]
INSTEAD = [code for mark, code in BLOCKS if mark == "instead"]

IMPORTS = "from millpond import Counter, Map, Partial, Partitioned, Program, Set, Value, each, entry, merged\n\n"


def compiled(code, folder):
    path = folder / "limits.py"
    path.write_text(IMPORTS + code, encoding="utf-8")
    names = runpy.run_path(str(path))
    (program,) = [
        value
        for value in names.values()
        if isinstance(value, type) and issubclass(value, Program) and value is not Program
    ]
    return compile_program(program)


def test_every_refusal_has_what_to_write_instead():
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("```python")
    assert [mark.split()[0] for mark, _ in BLOCKS] == ["refused", "instead"] * len(REFUSED)
    assert len(REFUSED) >= 10


@pytest.mark.parametrize(("code", "block"), REFUSED, ids=[code for code, _ in REFUSED])
def test_a_refused_block_gives_the_code_that_the_page_names(code, block, tmp_path):
    with pytest.raises(MillpondError) as caught:
        compiled(block, tmp_path)
    assert caught.value.code == code


@pytest.mark.parametrize("block", INSTEAD, ids=[code for code, _ in REFUSED])
def test_what_the_page_says_to_write_instead_is_accepted(block, tmp_path):
    assert compiled(block, tmp_path).entries

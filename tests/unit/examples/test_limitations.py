from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from millpond import MillpondError, Program
from millpond.compiler.compile import compile_program

PAGE = (Path(__file__).parents[3] / "docs" / "LIMITATIONS.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python (refused MP\d{3}|sequence MP\d{3}|instead|unseen)\n(.*?)```", re.DOTALL)
BLOCKS = BLOCK.findall(PAGE)

IMPORTS = "from millpond import Counter, Map, Partial, Partitioned, Program, Set, Value, each, entry, merged\n\n"

ORDER_OF_VISITS = {"MP150", "MP151", "MP152", "MP155"}


def marked(kind):
    """The blocks of one kind, each under the code that was named last."""
    code, found = "MP000", []
    for mark, block in BLOCKS:
        code = mark.partition(" ")[2] or code
        if mark.startswith(kind):
            found.append(pytest.param(code, block, id=code if kind != "unseen" else block.splitlines()[0]))
    return found


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
    assert len(BLOCKS) == PAGE.count("```python")
    assert re.fullmatch("([rs]i+)+u*", "".join(mark[0] for mark, _ in BLOCKS))
    assert len(marked("refused")) >= 5
    assert len(marked("sequence")) >= 20


@pytest.mark.parametrize(("code", "block"), marked("sequence"))
def test_a_block_in_sequence_runs_so_and_gives_its_code_where_that_is_not_wanted(code, block, tmp_path):
    assert compiled(block, tmp_path).graph.sequence
    marked_by = {"@entry\n": '@entry(way="gathered")\n', "relaxed=True": 'relaxed=True, way="gathered"'}
    for mark, asking in marked_by.items():
        block = block.replace(mark, asking)
    with pytest.raises(MillpondError) as caught:
        compiled(block, tmp_path)
    assert caught.value.code == code


@pytest.mark.parametrize(("code", "block"), marked("refused"))
def test_a_refused_block_gives_the_code_that_the_page_names(code, block, tmp_path):
    with pytest.raises(MillpondError) as caught:
        compiled(block, tmp_path)
    assert caught.value.code == code


@pytest.mark.parametrize(("code", "block"), [one for one in marked("sequence") if one.id in ORDER_OF_VISITS])
def test_relaxing_takes_any_order_of_visits(code, block, tmp_path):
    assert not compiled(block.replace("@entry\n", "@entry(relaxed=True)\n"), tmp_path).graph.sequence


@pytest.mark.parametrize(("code", "block"), marked("instead"))
def test_what_the_page_says_to_write_instead_is_accepted(code, block, tmp_path):
    assert compiled(block, tmp_path).entries


@pytest.mark.parametrize(("code", "block"), marked("unseen"))
def test_what_the_page_says_is_not_seen_is_still_accepted(code, block, tmp_path):
    assert compiled(block, tmp_path).entries, "it is refused by now: move it up on the page"

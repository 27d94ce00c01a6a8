"""The tutorial's blocks are one program that runs; those on Spark are run by the tests on Spark."""

from __future__ import annotations

import runpy

import pytest

from tests.unit.examples.readme import blocks


def test_the_blocks_that_need_no_spark_run_as_they_stand(tmp_path):
    path = tmp_path / "tutorial_program.py"
    path.write_text("\n".join(code for mark, code in blocks("docs/TUTORIAL.md") if not mark), encoding="utf-8")
    assert runpy.run_path(str(path))["Till"].__name__ == "Till"


def test_a_wrong_claim_in_a_block_would_be_found(tmp_path):
    text = "\n".join(code for mark, code in blocks("docs/TUTORIAL.md") if not mark)
    path = tmp_path / "tutorial_program.py"
    path.write_text(text.replace("[None, True, False, None, True]", "[None, True, True, None, True]"), encoding="utf-8")
    with pytest.raises(AssertionError):
        runpy.run_path(str(path))

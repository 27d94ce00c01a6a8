"""The blocks of docs/SOURCES.md that need no Spark run as they stand; those that do are Python at least."""

from __future__ import annotations

from tests.unit.examples.readme import BLOCK, ROOT

TEXT = (ROOT / "docs" / "SOURCES.md").read_text(encoding="utf-8")
BLOCKS = [code for _, code in BLOCK.findall(TEXT)]


def test_the_blocks_without_spark_run_and_keep_what_they_claim():
    plain = [code for code in BLOCKS if "spark" not in code]
    assert sum("assert" in code for code in plain) == 2
    for number, code in enumerate(plain):
        exec(compile(code, f"SOURCES.md block {number}", "exec"), {"__name__": f"sources_page_{number}"})


def test_the_blocks_with_spark_are_python():
    for code in BLOCKS:
        compile(code, "SOURCES.md", "exec")

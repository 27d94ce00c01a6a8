"""The blocks of docs/SOURCES.md that need no Spark run as they stand; tests on Spark run those that a comment names."""

from __future__ import annotations

from tests.unit.examples.readme import BLOCK
from tests.unit.examples.sources_page import NAMED, TEXT

BLOCKS = [code for _, code in BLOCK.findall(TEXT)]


def test_the_blocks_without_spark_run_and_keep_what_they_claim():
    plain = [code for code in BLOCKS if "spark" not in code]
    assert sum("assert" in code for code in plain) == 2
    for number, code in enumerate(plain):
        exec(compile(code, f"SOURCES.md block {number}", "exec"), {"__name__": f"sources_page_{number}"})


def test_the_blocks_with_spark_are_python():
    for code in BLOCKS:
        compile(code, "SOURCES.md", "exec")


def test_every_named_block_is_run_by_a_test():
    assert set(NAMED) == {"json", "csv", "delta", "iceberg", "enrichment"}

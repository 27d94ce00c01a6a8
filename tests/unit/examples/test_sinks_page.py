"""The blocks of docs/SINKS.md run as they stand, and the sink of the page passes the test that the page shows."""

from __future__ import annotations

import pytest

from tests.unit.examples.readme import BLOCK, ROOT


def page():
    text = (ROOT / "docs" / "SINKS.md").read_text(encoding="utf-8")
    return "\n".join(code for _, code in BLOCK.findall(text))


def test_the_page_runs_as_it_stands():
    names = {}
    exec(compile(page(), "SINKS.md", "exec"), names)
    assert names["JsonSink"]("out").describe().exactly_once


def test_a_sink_that_forgot_its_tokens_would_be_found_out():
    broken = page().replace('f"{file.file}.json"', 'f"{file.epoch}.json"')
    with pytest.raises(AssertionError, match="readers do not see"):
        exec(compile(broken, "SINKS.md", "exec"), {})

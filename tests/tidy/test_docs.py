"""The pages are true as far as a machine can tell: links lead to files and headings, and lines fit a screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LINE_CHARS_MAX = 139
LONG = re.compile(r"\| .*`tests/[\w/.]+::\w+`")
"""Rows of tables that name a test in full."""


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return what links to headings of a page may name."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    found = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A head, and more\n[a](#a-head-and-more) [b](other.md) [c](#none) [d](https://x.org/y)\n", "utf-8"
    )
    assert broken(page) == ["other.md", "#none"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_pages_fit_a_screen(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > LINE_CHARS_MAX and not LONG.match(line)] == []

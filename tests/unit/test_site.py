"""The site of the documentation: built from the pages, without a broken link, and not wider than a screen."""

from __future__ import annotations

import html.parser
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import millpond
from tests.unit.graph.browser import browsing, find_browser

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "site.py"), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Links(html.parser.HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, text):
        super().__init__()
        self.to, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.ids.add(found["id"])
        for name in ("href", "src"):
            if found.get(name):
                self.to.append(found[name])


def test_no_link_is_broken_and_nothing_is_fetched_from_elsewhere(site):
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 25
    broken, outside = [], []
    for page, links in pages.items():
        for link in links.to:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                outside.append((page.name, link))
            elif not parts.scheme:
                target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                target = target / "index.html" if target.is_dir() else target
                known = pages[target].ids if target in pages else {parts.fragment}
                if not target.exists() or (parts.fragment and unquote(parts.fragment) not in known):
                    broken.append((page.name, link))
    assert broken == []
    assert outside == []


def test_every_public_name_is_in_the_reference(site):
    shown = "\n".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    found = {name: getattr(millpond, name) for name in millpond.__all__ if name != "merges"}
    homes = {name: f"{one.__module__}.{one.__qualname__}" for name, one in found.items()}
    homes["merges"] = millpond.merges.__name__
    assert [name for name, home in homes.items() if f'id="{home}"' not in shown] == []


def test_the_search_finds_errors_and_tutorials(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"] for entry in index["docs"]}
    assert {"Errors", "Versions", "Seeing a job"} <= titles
    assert any("MP833" in entry["text"] or "MP833" in entry["title"] for entry in index["docs"])


def test_no_page_is_wider_than_the_screen(site):
    browser = find_browser()
    if browser is None:
        pytest.skip("no Chromium: run scripts/browser.sh")
    wide = []
    with browsing(browser) as page:
        for file in sorted(site.rglob("*.html")):
            page.open(file, 1280, 900)
            for width in (1280, 400):
                page.resize(width, 900)
                needed = page.evaluate("document.documentElement.scrollWidth")
                if needed > width:
                    wide.append((file.name, width, needed))
            page.close()
    assert wide == []

"""The tutorial's code runs, and its pictures are those that the script draws; in a browser no text covers another."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.unit.graph.browser import browsing, find_browser

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "WINDOWS_TUTORIAL.md"

COVERED = """(() => {
  const texts = [...document.querySelectorAll('text')].map(each => [each.textContent, each.getBoundingClientRect()]);
  const wide = document.documentElement.getBoundingClientRect().right, found = [];
  texts.forEach(([words, a], i) => {
    if (a.right > wide) found.push(words);
    texts.slice(i + 1).forEach(([others, b]) => {
      if (a.left < b.right && b.left < a.right && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        found.push(words + ' | ' + others);
    });
  });
  return found;
})()"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("window_pictures", ROOT / "scripts" / "window_pictures.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["window_pictures"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["window_pictures"]


def test_the_code_of_the_tutorial_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    program = tmp_path / "tutorial.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    runpy.run_path(str(program))


def test_the_tutorial_uses_the_records_of_the_pictures(script):
    text = PAGE.read_text(encoding="utf-8")
    assert f"records = {script.RECORDS}" in text
    assert f"batches = {script.BATCHES}" in text


def test_the_pictures_are_those_of_the_script_and_all_are_shown(script):
    shown = re.findall(r"\(pictures/(.*?)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(script.PICTURES)
    for name, picture in script.PICTURES.items():
        drawn = (script.FOLDER / name).read_text(encoding="utf-8")
        assert drawn == picture(), "run scripts/window_pictures.py"
        assert len(list(ET.fromstring(drawn))) > 30


def test_a_picture_tells_what_the_run_told(script):
    slices, told = script.observed({"windows": script.sliding("8 us", "4 us")})
    assert sum(int(each.text) for each in slices) == sum(value for _, value in script.RECORDS)
    for bar in told["windows"]:
        assert int(bar.text) == sum(value for time, value in script.RECORDS if bar.begin <= time < bar.end)


@pytest.mark.slow
def test_no_text_covers_another(script):
    browser = find_browser()
    if browser is None:
        pytest.skip("there is no browser")
    for name in script.PICTURES:
        with browsing(browser) as page:
            page.open(script.FOLDER / name, 780, 520)
            assert page.evaluate(COVERED) == []

from __future__ import annotations

import re
import runpy

import pytest

from tests.unit.examples.readme import ROOT, program


def test_the_blocks_that_need_no_spark_run_as_they_stand(tmp_path):
    path = tmp_path / "readme_program.py"
    path.write_text(program(spark=False), encoding="utf-8")
    names = runpy.run_path(str(path))
    assert names["Recommender"].__name__ == "Recommender"


def test_a_wrong_claim_in_a_block_would_be_found(tmp_path):
    path = tmp_path / "readme_program.py"
    path.write_text(program(spark=False).replace("{11: 4.5}", "{11: 5.0}"), encoding="utf-8")
    with pytest.raises(AssertionError):
        runpy.run_path(str(path))


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]
)
def test_links_lead_to_files_that_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in link]
    missing = [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]
    assert missing == []


def test_every_make_target_of_the_readme_exists_and_every_public_one_is_named():
    named = set(re.findall(r"`make (\w+)`", (ROOT / "README.md").read_text(encoding="utf-8")))
    public = set(re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named == public


def test_every_promise_names_tests_that_exist():
    page = (ROOT / "docs" / "GUARANTEES.md").read_text(encoding="utf-8")
    promises = re.split(r"^\*\*(P\d)\. ", page.partition("## Equal")[0], flags=re.MULTILINE)[1:]
    assert promises[::2] == [f"P{number}" for number in range(1, 10)]
    for name, text in zip(promises[::2], promises[1::2], strict=True):
        linked = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)", text)
        globs = re.findall(r"`(tests/[\w/*]+\.py)`", text)
        assert linked, f"{name} has no test"
        assert [place for place in linked + globs if not list(ROOT.glob(place))] == [], f"{name} names no such test"

"""What can't be tested through Spark Connect is listed with its reason, and nothing else is."""

from __future__ import annotations

import ast

from tests.tidy.tree import ROOT

TITLE = "### Tests that do not run through Spark Connect"


def reasons_given() -> set[str]:
    """The reasons of the marks `classic`, and that of tests which start a Spark of their own."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests" / "spark").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="classic"), args=[ast.Constant(value=str() as reason)]):
                    found.add(reason)
                case ast.Assign(targets=[ast.Name(id="OWN_SPARK")], value=ast.Constant(value=str() as reason)):
                    found.add(reason)
    return found


def test_every_reason_is_listed_and_used():
    page = (ROOT / "docs" / "LIMITATIONS.md").read_text(encoding="utf-8")
    rows = page[page.index(TITLE) :].splitlines()[6:]
    listed = {row.split("|")[1].strip() for row in rows if row.startswith("|")}
    assert listed == reasons_given()

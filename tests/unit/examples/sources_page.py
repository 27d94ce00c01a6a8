"""The blocks of docs/SOURCES.md that tests on Spark run: a comment before each names it."""

from __future__ import annotations

import re

from tests.unit.examples.readme import ROOT

TEXT = (ROOT / "docs" / "SOURCES.md").read_text(encoding="utf-8")
NAMED = dict(re.findall(r"<!-- source: (\w+) -->\n```python\n(.*?)```", TEXT, re.DOTALL))


def run_block(name, places, **known):
    """Run a block of the page, with other places for its names: Spark's JVM has the folder that it began in."""
    code = NAMED[name]
    for said, place in places.items():
        assert f'"{said}"' in code, said
        code = code.replace(f'"{said}"', repr(str(place)))
    exec(compile(code, f"SOURCES.md {name}", "exec"), known)


def code_with(text):
    """The block of the page that has a text in it: programs are classes of modules, so a test writes it into one."""
    (found,) = [code for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if text in code]
    return found

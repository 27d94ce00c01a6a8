"""Every pass leaves what its golden files say.

A file has a `== program` and then sections named after what is shown of it. `MILLPOND_TEST_GOLDEN=rewrite` writes what the
passes leave now into the files; read the difference before you keep it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.golden.programs import load, program_in
from tests.golden.render import RENDER

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.txt"))
REWRITE = os.environ.get("MILLPOND_TEST_GOLDEN") == "rewrite"


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^== (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names(case: Path) -> str:
    return f"{case.parent.name}/{case.stem}"


def rendered(case: Path, tmp_path: Path) -> dict[str, str]:
    parts = sections(case.read_text(encoding="utf-8"))
    module = load(parts["program"], tmp_path)
    program = program_in(module)
    shown = {"program": parts["program"]}
    for name in list(parts)[1:]:
        text = RENDER[name](program).replace(str(module.__file__), "program.py")
        shown[name] = text if text.endswith("\n") else text + "\n"
    return shown


@pytest.mark.parametrize("case", CASES, ids=names)
def test_the_golden_file_holds(case, tmp_path):
    parts = sections(case.read_text(encoding="utf-8"))
    shown = rendered(case, tmp_path)
    if REWRITE:
        case.write_text("".join(f"== {name}\n{text}" for name, text in shown.items()), encoding="utf-8")
        pytest.skip("rewritten")
    assert shown == parts


@pytest.mark.parametrize("case", sorted(HERE.glob("errors/*.txt")), ids=names)
def test_the_error_has_the_code_of_its_file(case):
    code = case.stem.partition("_")[0]
    assert sections(case.read_text(encoding="utf-8"))["error"].startswith(f"{code} ")


def test_every_pass_has_golden_files():
    assert {case.parent.name for case in CASES} >= (RENDER.keys() - {"error", "mermaid"}) | {"errors"}


def test_a_file_without_a_known_section_fails():
    assert sections("== program\nx\n== cfg\ny\n") == {"program": "x\n", "cfg": "y\n"}
    assert "typo" not in RENDER

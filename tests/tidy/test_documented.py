"""Every public name says what it is, and every error code says what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.tree import ROOT, Module, calls, modules, nodes, parse, texts

EXAMPLES_MIN = 80
"""Files that open with a short example, which tests/unit/test_doctests.py runs."""

PUBLIC_NAMES_MAX = 35

FAMILIES = {
    "ProgramError": "MP1",
    "StateError": "MP2",
    "StorageError": "MP3",
    "EpochError": "MP4",
    "FeedError": "MP5",
    "RowError": "MP6",
    "WindowError": "MP6",
    "ConnectError": "MP6",
    "ElasticError": "MP6",
    "SetupError": "MP7",
    "SinkError": "MP80",
    "SourceError": "MP81",
    "ReadError": "MP83",
    "MetricsError": "MP84",
    "ConnectorError": "MP84",
    "LoopError": "MP8",
    "ServeError": "MP8",
}

CODE = re.compile(r"MP\d{3}")
NO_VERB = re.compile(r"(The|An?|What|Whether|Which|When|Where|Why|How|All|One|Each|Every|Entries|So) ")
NO_VERBS_YET = frozenset({"compiler"})
"""Rooms whose functions need not say yet what they do by a verb."""
# A heading, a row of a table, or an item of a list that begins with the code.
EXPLAINED = re.compile(r"^[#|*\-\s]*`?(MP\d{3})\b", re.MULTILINE)


def undocumented(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.path}: the module does not say what it owns"
    for node in module.tree.body:
        public = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_"
        if public and not ast.get_docstring(node):
            yield module.at(node, f"`{node.name}` has no docstring")


def without_verb(module: Module) -> Iterator[str]:
    for node in nodes(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        # A property is a thing.
        thing = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        text = ast.get_docstring(node) or ""
        if not thing and NO_VERB.match(text):
            yield module.at(node, f"`{node.name}` begins with `{text.split()[0]}`, not with a verb")


def codes_used(module: Module) -> set[str]:
    return {
        node.value
        for node in nodes(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }


def codes_explained(text: str) -> set[str]:
    return set(EXPLAINED.findall(text))


def wrong_families(module: Module) -> Iterator[str]:
    for node, name in calls(module):
        prefix = FAMILIES.get(name.split(".")[-1])
        code = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if prefix and isinstance(code, str) and not code.startswith(prefix):
            yield module.at(node, f"`{name}` has the codes {prefix}xx, not {code}")


def unshown(names: list[str], shown: str) -> list[str]:
    words = set(re.findall(r"\w+", shown))
    return [name for name in names if name not in words]


@pytest.mark.parametrize(
    "lines",
    ["x = 1", '"""Doc."""\ndef f():\n    pass', '"""Doc."""\nclass C:\n    x = 1', '"""D."""\nasync def f(): ...'],
)
def test_a_missing_docstring_is_found(lines):
    assert len(list(undocumented(parse(lines)))) == 1


def test_private_names_need_no_docstring():
    assert list(undocumented(parse('"""Doc."""\ndef _f():\n    pass\nclass _C:\n    pass'))) == []


def test_a_docstring_without_a_verb_is_found():
    assert len(list(without_verb(parse('def f():\n    """The files."""')))) == 1
    assert list(without_verb(parse('class C:\n    @property\n    def f(self):\n        """The files."""'))) == []
    assert list(without_verb(parse('def f():\n    """Return the files."""'))) == []


def test_codes_are_read_from_literals_and_from_the_page():
    assert codes_used(parse('raise StateError("MP204", "see MP999")')) == {"MP204"}
    page = "# Errors\n## MP101 no key\nsee MP999\n| `MP204` | bad |\n- MP301: damaged\n"
    assert codes_explained(page) == {"MP101", "MP204", "MP301"}


def test_a_code_of_another_family_is_found():
    assert len(list(wrong_families(parse('raise StateError("MP301", "x")')))) == 1
    assert list(wrong_families(parse('raise errors.StateError("MP201", "x")'))) == []


def test_a_name_that_is_nowhere_shown_is_found():
    assert unshown(["Partial", "each"], "use `Partial` for reaching each_one") == ["each"]


def test_every_public_name_of_every_module_has_a_docstring():
    assert [finding for module in modules("millpond") for finding in undocumented(module)] == []


def test_central_files_open_with_an_example():
    opened = [module.path for module in modules("millpond") if ">>> " in (ast.get_docstring(module.tree) or "")]
    assert len(opened) >= EXAMPLES_MIN


def test_docstrings_of_functions_begin_with_a_verb():
    rooms = [module for module in modules("millpond") if module.room not in NO_VERBS_YET]
    assert [finding for module in rooms for finding in without_verb(module)] == []


def test_every_error_has_a_code_of_its_family():
    assert [finding for module in modules("millpond") for finding in wrong_families(module)] == []


def test_every_error_code_is_explained_and_every_explained_code_is_used():
    page = ROOT / "docs" / "ERRORS.md"
    if not page.exists():
        pytest.fail("docs/ERRORS.md is missing: it explains every error code")
    used = set().union(*(codes_used(module) for module in modules("millpond")))
    explained = codes_explained(page.read_text(encoding="utf-8"))
    assert sorted(used - explained) == [], "used but not explained in docs/ERRORS.md"
    assert sorted(explained - used) == [], "explained in docs/ERRORS.md but not used"


def test_public_names_are_few_and_have_docstrings():
    import millpond

    assert 0 < len(millpond.__all__) <= PUBLIC_NAMES_MAX
    assert [name for name in millpond.__all__ if not getattr(millpond, name).__doc__] == []


def test_public_names_are_shown_in_use():
    import millpond

    places = ("README.md", "docs/", "examples/", "tests/")
    shown = "\n".join(text for path, text in texts() if path.startswith(places))
    assert unshown(millpond.__all__, shown) == []


def test_every_figure_of_an_epoch_is_explained():
    from dataclasses import fields

    from millpond.spark.reporting.reports import EpochReport

    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^- (`.*?): ", page, re.MULTILINE))))
    assert sorted({each.name for each in fields(EpochReport)} - explained) == []

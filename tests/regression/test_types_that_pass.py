"""What `millpond check` accepts, runs; and it refuses what the compiler refuses, in the same words."""

from __future__ import annotations

import dataclasses
import datetime
import io
import sys
import types
import typing
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pytest

from millpond.cli.check import check_paths, check_program
from millpond.compiler.compile import compile_program
from millpond.engine.arrowtypes import arrow_type
from millpond.engine.plan import BadRows
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import FeedError, ProgramError, RowError
from millpond.program.columntypes import without_column
from tests.fuzz.loading import loaded
from tests.golden.programs import load, program_in

PROGRAM = """from __future__ import annotations

import datetime
import enum
import uuid
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Optional

from millpond import Map, Partitioned, Program, entry


class Place(NamedTuple):
    x: int
    when: datetime.date


class Made(Program):
    a = Partitioned(Map[str, {kept}])

    @entry
    def go(self, k: {key}, v: {hint}) -> {hint}:
        self.a[k] = v
        return self.a[k]
"""

GOOD: list[tuple[str, list[Any]]] = [
    ('Literal["a", "b"]', ["a", "b", "a"]),
    ("Literal[1, 2]", [1, 2]),
    ('Optional[Literal["a"]]', ["a", None]),
    ('Literal["a", None]', ["a", None]),
    ('Literal["a"] | Literal["b"]', ["a", "b"]),
    ('list[Literal["a", "b"]]', [["a"], []]),
    ("Literal[True]", [True]),
    ("list[Literal[True, False]]", [[True, False], []]),
    ("int | None", [1, None]),
    ("Decimal", [Decimal("1.5")]),
]


@pytest.mark.parametrize(("hint", "values"), GOOD, ids=lambda part: part if isinstance(part, str) else "")
def test_a_type_that_is_accepted_runs(hint, values, tmp_path):
    with loaded(PROGRAM.format(hint=hint, kept=hint, key="str")) as program:
        assert check_program(program).errors == []
        run = Simulated(compile_program(program), tmp_path, partitions=3)
        for value in values:
            run.epoch([("go", ("k", value))])
        told = [reply for _, reply in sorted(run.replies().items())]
    assert [(type(reply), reply) for reply in told] == [(type(value), value) for value in values]


def test_a_parameter_that_is_nothing_runs(tmp_path):
    text = PROGRAM.format(hint="int", kept="int | None", key="str").replace("v: int", "v: None")
    with loaded(text.replace("-> int", "-> bool").replace("return self.a[k]", "return self.a[k] is None")) as program:
        assert check_program(program).errors == []
        run = Simulated(compile_program(program), tmp_path, partitions=3)
        run.epoch([("go", ("k", None)), ("go", ("l", None))])
        assert run.replies() == {0: True, 1: True}


def test_a_parameter_that_is_a_literal_may_be_a_key(tmp_path):
    with loaded(PROGRAM.format(hint="int", kept="int", key='Literal["a", "b"]')) as program:
        run = Simulated(compile_program(program), tmp_path, partitions=3)
        run.epoch([("go", ("a", 1)), ("go", ("b", 2)), ("go", ("a", 3))])
        assert sorted(run.replies().items()) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("hint", "bad"), [('Literal["a"]', "b"), ('list[Literal["a"]]', ["a", "b"]), ("Literal[1]", 2)]
)
def test_a_value_that_is_none_of_a_literal_is_a_bad_row(hint, bad, tmp_path):
    good = {str: "a", list: ["a"], int: 1}[type(bad)]
    with loaded(PROGRAM.format(hint=hint, kept=hint, key="str")) as program:
        compiled = compile_program(program)
        run = Simulated(compiled, tmp_path / "skip", partitions=2, bad_rows=BadRows.SKIP)
        run.epoch([("go", ("k", good)), ("go", ("k", bad))])
        assert run.replies() == {0: good}
        with pytest.raises(RowError) as refused:
            Simulated(compiled, tmp_path / "fail", partitions=2).epoch([("go", ("k", bad))])
    assert refused.value.code == "MP602"


REFUSED = [
    "int | str",
    "int | bool",
    "list[int | str]",
    "dict[str, int | str]",
    "Any",
    "datetime.timedelta",
    "datetime.time",
]


@pytest.mark.parametrize("hint", REFUSED)
def test_a_type_without_a_column_is_refused_at_its_line_by_check_and_compiler(hint):
    with loaded(PROGRAM.format(hint=hint, kept="int", key="str")) as program:
        with pytest.raises(ProgramError) as refused:
            compile_program(program)
        told = check_program(program).errors
    assert refused.value.code == "MP148"
    assert refused.value.places
    assert [str(error) for error in told] == [str(refused.value)]


@pytest.mark.parametrize(("hint", "word"), [("datetime.time", "make the value"), ("int | str", "may be None")])
def test_the_next_step_fits_the_type(hint, word):
    with loaded(PROGRAM.format(hint=hint, kept="int", key="str")) as program, pytest.raises(ProgramError) as refused:
        compile_program(program)
    assert word in refused.value.hint


STARRED = """from millpond_kinds import *
from millpond import Map, Partitioned, Program, entry


class Made(Program):
    a = Partitioned(Map[Color, int])

    @entry
    def go(self, k: Color, v: int) -> int:
        self.a[k] = v
        return self.a[k]
"""

CHECKING = """from __future__ import annotations

from typing import TYPE_CHECKING

from millpond import Map, Partitioned, Program, entry

if TYPE_CHECKING:
    from decimal import Decimal


class Made(Program):
    a = Partitioned(Map[str, int])

    @entry
    def go(self, k: str, v: Decimal) -> int:
        self.a[k] = 1
        return self.a[k]
"""


def codes_of(file, *, importing):
    (report,) = check_paths([file], importing=importing)
    return [error.code for one in report.programs for error in one.errors]


def test_what_a_star_brings_is_not_told_to_be_missing(tmp_path, monkeypatch):
    (tmp_path / "millpond_kinds.py").write_text("class Color:\n    pass\n")
    file = tmp_path / "starred.py"
    file.write_text(STARRED)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert codes_of(file, importing=True) == ["MP202"]


def test_what_is_imported_for_type_checkers_alone_is_missing_to_both_checks(tmp_path):
    file = tmp_path / "checking.py"
    file.write_text(CHECKING)
    assert codes_of(file, importing=True) == codes_of(file, importing=False) == ["MP102"]


@dataclasses.dataclass
class Tree:
    leaf: int
    kids: list[Tree]


class Branch(NamedTuple):
    tree: dict[str, Branch | None]


@pytest.mark.parametrize("hint", [Tree, list[Tree], Tree | None, Branch, tuple[Tree, int]], ids=str)
def test_a_class_inside_of_itself_is_no_column(hint):
    assert set(without_column(hint)) <= {Tree, Branch}
    assert list(without_column(hint))


@pytest.mark.parametrize(
    ("hint", "code"),
    [("typing.Final[int]", "MP102"), ("int |", "MP102"), ("datetime.Missing", "MP102"), ("Twig", "MP148")],
)
def test_a_hint_that_says_no_type_of_a_value_is_refused_at_its_method(hint, code):
    text = PROGRAM.format(hint=f"{hint!r}", kept="int", key="str")
    text = text.replace("import uuid", "import typing\nimport uuid", 1).replace(
        "from __future__ import annotations", "", 1
    )
    text = text.replace("class Made", "class Twig(NamedTuple):\n    twigs: 'list[Twig]'\n\n\nclass Made", 1)
    with loaded(text) as program:
        with pytest.raises(ProgramError) as refused:
            compile_program(program)
        assert str(check_program(program).errors[0]) == str(refused.value)
    assert refused.value.code == code
    assert refused.value.places


class Spot(NamedTuple):
    x: int
    when: datetime.date


@pytest.mark.parametrize(
    "hint",
    [
        *(int, float, str, bytes, bool, datetime.date, datetime.datetime, Decimal, None, type(None)),
        *(list[int], set[str], frozenset[int], tuple[int, ...], tuple[int, str], dict[str, list[int]], Spot),
        *(int | None, str | None, Literal["a"], Literal["a", 1], list[Literal[1]]),
        *(int | str, list[int | str], dict[str, Any], Any, object, complex, datetime.time, list, dict, tuple),
        *(typing.Annotated[int, "x"], typing.Annotated[int | str, "x"]),
    ],
    ids=str,
)
def test_the_types_of_columns_are_those_that_arrow_gets(hint):
    try:
        arrow_type(hint)
    except FeedError:
        assert list(without_column(hint))
    else:
        assert list(without_column(hint)) == []


MEMBERS = """from abc import ABC, abstractmethod

from millpond import Map, Partitioned, Program, entry


class Base(Program, ABC):
    a = Partitioned(Map[str, int])

    @abstractmethod
    def weight(self, key: str) -> int: ...

    @classmethod
    def twice(cls, n: int) -> int:
        return 2 * n

    @entry
    def go(self, key: str) -> int:
        self.a[key] = self.a.get(key, 0) + self.weight(key) + self.twice(1)
        return self.a[key]


class Own(Base):
    def weight(self, key: str) -> int:
        return len(key)
"""


@pytest.mark.parametrize("importing", [True, False])
def test_an_abstract_base_is_no_program_of_its_own(importing, tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(MEMBERS, encoding="utf-8")
    (report,) = check_paths([file], importing=importing)
    assert [(program.name, program.errors) for program in report.programs] == [("Own", [])]


def test_the_compiler_says_that_it_is_abstract(tmp_path):
    with loaded(MEMBERS) as program:
        assert list(compile_program(program).entries) == ["go"]
        with pytest.raises(ProgramError) as refused:
            compile_program(program.__bases__[0])
    assert refused.value.code == "MP149"


@pytest.mark.parametrize("importing", [True, False])
@pytest.mark.parametrize("order", ["@entry\n    @{}", "@{}\n    @entry"])
@pytest.mark.parametrize("kind", ["classmethod", "staticmethod"])
def test_an_entry_point_without_a_program_is_refused_in_whichever_order(kind, order, importing, tmp_path):
    file = tmp_path / "shop.py"
    entry_point = f"    {order.format(kind)}\n    def put(cls, key: str) -> int:\n        return 1\n"
    file.write_text(MEMBERS + "\n" + entry_point, encoding="utf-8")
    (report,) = check_paths([file], importing=importing)
    (own,) = (program for program in report.programs if program.name == "Own")
    assert [error.code for error in own.errors] == ["MP118"]
    assert own.errors[0].places


def test_hints_that_are_text_travel_with_their_class():
    """Where a class arrives there may be no module that knows the names in its hints."""
    ship = pytest.importorskip("millpond.spark.ship")
    head, _, _ = PROGRAM.format(hint="int", kept="int", key="str").partition("class Made")
    module = types.ModuleType("gone_by_then")
    sys.modules[module.__name__] = module
    exec(compile(head, "gone_by_then.py", "exec"), vars(module))
    # Not to be found in its module, a class travels by value, as those of a notebook do.
    place = vars(module).pop("Place")
    packed = io.BytesIO()
    ship._Pickler(packed).dump(place)
    del sys.modules[module.__name__]
    arrived = ship.cloudpickle.loads(packed.getvalue())
    assert typing.get_type_hints(arrived) == {"x": int, "when": datetime.date}


ODD_CLASSES = """import collections
from dataclasses import dataclass
from millpond import Map, Partitioned, Program, entry


@dataclass
class Missing:
    x: "collections.NoSuchThing"


@dataclass
class Broken:
    x: "list["


class P(Program):
    m = Partitioned(Map[str, list[int]])

    @entry
    def go(self, k: str, v: int) -> int:
        xs = self.m.setdefault(k.strip(), [])
        xs.append(v)
        return len(xs)
"""


def test_classes_of_the_module_that_nobody_uses_may_have_hints_that_say_nothing(tmp_path):
    run = Sequential(compile_program(program_in(load(ODD_CLASSES, tmp_path))))
    assert [run.call("go", " a", 1), run.call("go", "a ", 2)] == [1, 2]

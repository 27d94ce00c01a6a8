from __future__ import annotations

import ast
import itertools
import re
from functools import cache

import pytest

from tests.fuzz.dice import Dice, derive
from tests.fuzz.expressions import _CONSTANTS, _FORMS, _HOLE, templates_of
from tests.fuzz.grammar import Generated, Knobs, generate
from tests.fuzz.kinds import PARTIAL, PARTITIONED
from tests.fuzz.loading import loaded
from tests.fuzz.scope import PREFIXES

MANY = 500

pytestmark = pytest.mark.slow


@cache
def programs() -> tuple[Generated, ...]:
    return tuple(generate(seed) for seed in range(MANY))


@cache
def nodes() -> tuple[ast.AST, ...]:
    return tuple(node for program in programs() for node in ast.walk(ast.parse(program.text)))


def test_a_seed_gives_one_program():
    assert [generate(seed) for seed in range(20)] == list(programs()[:20])
    assert len({program.text for program in programs()}) > MANY * 0.98


def test_seeds_of_parts_do_not_meet():
    seeds = {derive(1, number, part) for number in range(50) for part in ("program", "rows", "run")}
    assert len(seeds) == 150
    assert derive(1, 2, "rows") == derive(1, 2, "rows")


def test_programs_are_within_their_limits():
    for program in programs():
        methods = [
            node
            for node in ast.walk(ast.parse(program.text))
            if isinstance(node, ast.FunctionDef) and node.decorator_list
        ]
        entries = [node for node in methods if node.name in program.entries]
        assert 1 <= len(entries) <= Knobs().entries_max
        for node in entries:
            assert 1 <= len(node.args.args) - 1 <= 5
            lines = sum(isinstance(part, ast.stmt) for part in ast.walk(node)) - 1
            assert lines <= 2 * Knobs().statements_max


@pytest.mark.parametrize("seed", range(0, MANY, 50))
def test_a_program_can_be_imported_and_has_its_entry_points(seed):
    program = generate(seed)
    with loaded(program.text) as made:
        found = {name: tuple(name for name, _ in point.parameters) for name, point in made.entries().items()}
        assert found == {name: tuple(name for name, _ in given) for name, given in program.entries.items()}
        assert made.elements()
        assert callable(made().entry0)


@pytest.mark.parametrize(
    "kind",
    [
        ast.If, ast.For, ast.While, ast.Match, ast.Try, ast.Break, ast.Continue, ast.Return, ast.IfExp, ast.And, ast.Or,
        ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Lambda,
        ast.Delete, ast.JoinedStr, ast.Starred, ast.Compare, ast.Dict, ast.Set, ast.MatchOr, ast.MatchSequence, ast.Not,
    ],
)  # fmt: skip
def test_every_construct_is_generated(kind):
    assert any(isinstance(node, kind) for node in nodes())


def test_every_form_of_control_flow_is_generated():
    loops = [node for node in nodes() if isinstance(node, ast.For)]
    assert any(loop.orelse for loop in loops)
    assert any(isinstance(part, ast.For) for loop in loops for part in ast.walk(loop) if part is not loop)
    assert any(isinstance(part, ast.Return) for loop in loops for part in ast.walk(loop))
    assert any(isinstance(loop.target, ast.Tuple) for loop in loops)
    tries = [node for node in nodes() if isinstance(node, ast.Try)]
    assert any(node.finalbody for node in tries)
    branches = [node for node in nodes() if isinstance(node, ast.If)]
    assert any(len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) for node in branches)
    unpacked = [node for node in nodes() if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)]
    assert unpacked


def test_fan_out_loops_and_atomic_loops_touch_state():
    loops = [node for node in nodes() if isinstance(node, ast.For) and isinstance(node.target, ast.Name)]
    keyed = [
        isinstance(part.slice, ast.Name) and part.slice.id == loop.target.id
        for loop in loops
        for part in ast.walk(loop)
        if isinstance(part, ast.Subscript) and ast.unparse(part.value).startswith("self.e")
    ]
    assert any(keyed)
    assert not all(keyed)


def test_every_kind_of_state_and_every_way_to_use_it_is_generated():
    text = "\n".join(program.text for program in programs())
    for kind in (*PARTITIONED, *PARTIAL):
        assert f"{'Partial' if kind.partial else 'Partitioned'}({kind.declared}" in text
    assert 'by="column"' in text
    assert "merged(each(self." in text
    assert "merged(answers" in text
    assert "answers = each(self." in text
    assert "self._visit0(" in text
    assert "@staticmethod" in text


def test_captured_names_are_used_as_keys():
    matches = [node for node in nodes() if isinstance(node, ast.Match)]
    captured = {
        (part.name, inner.slice.id)
        for node in matches
        for case in node.cases
        for part in ast.walk(case.pattern)
        for inner in ast.walk(case)
        if isinstance(part, ast.MatchAs) and isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Name)
    }
    assert any(name == key for name, key in captured)


@pytest.mark.parametrize("used", ["*{0}", "**{0}", "{{{0}}}", "{{{0}!"])
def test_variables_are_changed_where_the_same_expression_uses_them(used):
    lines = [line for program in programs() for line in program.text.splitlines()]
    changed = [(line, name) for line in lines for name in re.findall(r"\b(?:bump|grow)\((\w+)\)", line)]
    assert any(used.format(name) in line and "self.e" in line for line, name in changed)


def test_objects_are_put_into_local_containers_and_changed_later():
    text = "\n".join(program.text for program in programs())
    for form in (r"x\d+ = \[(w\d+), \1\]", r"x\d+\.append\(w", r"x\d+\['a'\] = w", r"x\d+ = \[\[\w+\]\] \* 2"):
        assert re.search(form, text), form


def test_every_type_of_parameter_and_reply_is_generated():
    kinds = {kind for program in programs() for given in program.entries.values() for _, kind in given}
    assert kinds == {"int", "str", "float", "bool"}
    replies = {ast.unparse(node.returns) for node in nodes() if isinstance(node, ast.FunctionDef) and node.returns}
    assert {"None", "int", "str", "float", "bool", "list[int]", "tuple[int, int]", "dict[str, int]"} <= replies


def test_a_small_share_is_not_steered_and_a_small_share_is_relaxed():
    assert 0 < sum(not program.rebalanced for program in programs()) < MANY * 0.5
    assert 0 < sum("relaxed" in program.text for program in programs()) < MANY * 0.5
    assert "relaxed" not in generate(1, Knobs(relaxed=0.0)).text
    assert "@entry(relaxed=True)" in generate(1, Knobs(relaxed=1.0)).text


def test_every_hole_of_every_template_can_be_filled():
    templates = list(itertools.chain.from_iterable(templates_of(kind) for kind in (*PARTITIONED, *PARTIAL)))
    templates += [form for forms in _FORMS.values() for form in forms]
    for template in templates:
        left = _HOLE.sub("x", template)
        ast.parse(left)
        assert "<s>" not in left
    assert _FORMS.keys() == _CONSTANTS.keys() == PREFIXES.keys()


def test_every_form_may_stand_where_a_condition_is_asked():
    for form in itertools.chain.from_iterable(_FORMS.values()):
        ast.parse(f"a if {_HOLE.sub('x', form)} % 4 in b else c")


def test_dice_choose_by_weight():
    dice = Dice(1)
    chosen = [dice.weighted([(1, "a"), (0, "b"), (3, "c")]) for _ in range(400)]
    assert set(chosen) == {"a", "c"}
    assert chosen.count("c") > 2 * chosen.count("a")
    assert sorted(dice.shuffled(range(9))) == list(range(9))
    assert dice.some("abcdef", 3) == sorted(Dice(2).some("abcdef", 3)) or len(dice.some("abc", 9)) == 3

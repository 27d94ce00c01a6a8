"""Whatever the compiler accepts does what plain Python does; what it refuses has a code and a place."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from millpond.compiler import CompiledProgram, compile_program
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from millpond.keygroups import Layout
from millpond.program import ProgramBase
from millpond.state.containers.element import THE_KEY
from millpond.state.local.storekey import element_of, store_key, unit_of
from tests.golden.programs import load, program_in
from tests.sizes import some_of

LAYOUT = Layout(key_groups=16, partitions=1, instances=4, aligned=True)

DECLARED = """
class Random(Program):
    m = Partitioned(Map[int, int])
    d = Partitioned(Map[int, list[int]])
    c = Partitioned(Counter[int])
    s = Partitioned(Set[int])
    x = Partitioned(Matrix[int, int, int], by="row")
    y = Partitioned(Matrix[int, int, int], by="column")
    v = Partitioned(Value[int])
    g = Partitioned(List[int])
    p = Partial(Counter[int])
    q = Partial(Counter[int])
    LIMIT = 7

    def _clip(self, number: int) -> int:
        return number % self.LIMIT
"""

KEYS = st.sampled_from(["a", "a", "a", "a", "b", "a % 3", "(a + b) % 3", "t", "2", "self.LIMIT"])
VALUES = st.sampled_from(["a", "b", "t", "u", "a + t", "t - b", "3", "self._clip(t)", "(t if a else b)", "len(w)"])

# {k}, {l}: keys; {e}, {f}: values.
SIMPLE = st.sampled_from(
    [
        "self.m[{k}] = {e}",
        "t = self.m.get({k}, 0)",
        "u = {e} + self.m.get({k}, 0)",
        "self.m[{k}] = self.m.get({k}, 0) + {e}",
        "t = self.m.pop({k}, {e})",
        "self.c[{k}] += {e}",
        "t = self.c[{k}] + {e}",
        "u = self.c[{k}] + self.m.get({l}, 1)",
        "self.c[{k}] += self.m.get({l}, {e})",
        "self.s.add({k})",
        "t = int({k} in self.s)",
        "self.s.discard({k})",
        "self.x[{k}, {e}] += 1",
        "t = len(self.x.row({k}))",
        "self.y[{e}, {k}] = {f}",
        "u = sum(self.y.column({k}).values())",
        "self.v.set(self.v.get(0) + {e})",
        "t = self.v.get(1)",
        "self.g.append({e})",
        "u = self.g[-1] if len(self.g) else {e}",
        "w = self.d.setdefault({k}, [])",
        "w = list(self.d.get({k}, []))",
        "w = self.d.get({k}, w)",
        "self.d[{k}] = w",
        "self.d[{k}] = [*w, {e}]",
        "self.p[{e}] += 1",
        "self.q[{e}] += {f}",
        "t = merged(each(self.p).get({e}, 0), sum)",
        "u = {e} + merged(each(self.q).get({f}, 0), sum)",
        "answers = each(self.p).get({e}, 0)\nt = merged(answers, sum)",
        "w.append({e})",
        "w = w[:2]",
        "z = w",
        "z = [{e}]",
        "z.append({e})",
        "z += [{e}]",
        "t = {e}",
        "a = {e}",
        "t += {e}",
        "t, u = u, {e}",
        "del u\nu = {e}",
        "u = [{e} for t in w][-1:]\nu = len(u)",
    ]
)
LOOPS = st.sampled_from(
    [
        "if {e} % 2:\n{body}",
        "if {k} in self.m:\n{body}\nelse:\n    t = {e}",
        "if self.c[{k}] > {e}:\n{body}",
        "for i in range({e} % 3):\n{body}",
        "for i in self.x.row({k}):\n{body}\n    t += i",
        "while t > 5:\n    t -= 3\n{body}",
        "try:\n{body}\n    t = 10 // (t % 2)\nexcept ZeroDivisionError:\n    u = {e}\nfinally:\n    t = t % 11",
        "match {e} % 3:\n    case 0:\n        t = 1\n    case n if n > 1:\n        t = n\n    case _:\n        pass",
        "if {e} > 6:\n    return {f}",
        "for i in w:\n    if i > {e}:\n        return i",
        "if {e} % 2:\n    late = {f}\nt = late if {e} % 2 else 0",
    ]
)


def indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


@st.composite
def statements(draw: st.DrawFn, *, nested: bool = False) -> str:
    compound = not nested and draw(st.integers(0, 3)) == 0
    template = draw(LOOPS if compound else SIMPLE)
    body = indent(draw(statements(nested=True))) if compound else ""
    key = draw(KEYS)
    other = draw(st.one_of(st.just(key), KEYS))
    return template.format(k=key, l=other, e=draw(VALUES), f=draw(VALUES), body=body)


@st.composite
def methods(draw: st.DrawFn, name: str) -> str:
    lines = ["t = 0", "u = b", "w = [a, b]", "z = []"]
    lines += draw(st.lists(statements(), min_size=1, max_size=4))
    lines.append(
        draw(st.sampled_from(["return t + u", "return (t, u, a)", "return (t, len(w), w)", "return w + z", "t = u"]))
    )
    header = f"@entry\ndef {name}(self, a: int, b: int) -> object:\n"
    return indent(header + indent("\n".join(lines)))


PROGRAMS = st.builds(lambda one, two: f"{DECLARED}\n{one}\n\n{two}\n", methods("one"), methods("two"))
RAISING = st.sampled_from(["t = 10 // b", "t = w[a]", "if a < 3:\n    late = b\nt = late", "del u\nt = u + a"])


@st.composite
def raising_programs(draw: st.DrawFn) -> str:
    lines = ["t = 0", "u = b", "w = [a, b]", "z = []"]
    lines += [draw(statements()), draw(RAISING), draw(statements())]
    header = "@entry\ndef one(self, a: int, b: int) -> object:\n"
    return f"{DECLARED}\n{indent(header + indent(chr(10).join([*lines, 'return (t, w)'])))}\n"


SHARING = st.sampled_from(
    [
        "w = self.d.setdefault(a, [])",
        "w = self.d.get(a, w)",
        "w = list(self.d.get(a, []))",
        "w = self.n.setdefault(a, [[a]])[0]",
        "z = self.n.get(a, [z])[-1]",
        "z = list(self.n.get(a, []))",
        "self.d[a] = w",
        "self.d[a] = list(w)",
        "self.n[a] = [w, z]",
        "self.d.setdefault(a, []).append(b)",
        "self.n.setdefault(a, []).append(w)",
        "z = w",
        "z = w[:1]",
        "z = list(w)",
        "z = w if b else []",
        "z = same(w)",
        "y = [w]",
        "y = (w, z)",
        "w = y[0]",
        "for n in [w, z]:\n    w = n",
        "match (w, z):\n    case (one, _):\n        z = one",
        "w.append(b)",
    ]
)
CHANGING = st.sampled_from(
    ["w.append(9)", "z.append(8)", "w += [7]", "z += [6]", "y[0].append(5)", "z = same(z)", "z[:] = []"]
)


@st.composite
def sharing_programs(draw: st.DrawFn) -> str:
    lines = ["w = [a, b]", "z = [b]", "y = [[a]]", *draw(st.lists(SHARING, min_size=1, max_size=4))]
    lines += ["self.c[b] += 1", *draw(st.lists(CHANGING, min_size=1, max_size=2))]
    lines.append(draw(st.sampled_from(["return (w, z, y)", "return (w, z)", "return w", "return z"])))
    header = "@entry\ndef one(self, a: int, b: int) -> object:\n"
    method = indent(header + indent("\n".join(lines)))
    return f"def same(x):\n    return x\n{DECLARED}    n = Partitioned(Map[int, list[list[int]]])\n\n{method}\n"


CALLS = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.integers(0, 4), st.integers(0, 9)), max_size=12)


def plain_state(program: ProgramBase) -> dict[bytes, bytes]:
    """The state of a plain instance, as a checkpoint would hold the partitioned part of it."""
    held = {}
    for index, (name, element) in enumerate(program.elements().items()):
        container: Any = vars(program)[name]
        inner = getattr(container, "_entries", None)
        entries = container if isinstance(container, dict) else container._lines if inner is None else inner
        for unit, value in dict.items(entries):
            group = 0 if element.partial else LAYOUT.group_of(THE_KEY if element.type.single else unit)
            held[store_key(index, group, element.type.keys.encode(unit))] = element.type.values.encode(value)
    return held


def partial_sums(program: type[ProgramBase], held: dict[bytes, bytes]) -> Tally[tuple[int, bytes]]:
    sums: Tally[tuple[int, bytes]] = Tally()
    for index, element in enumerate(program.elements().values()):
        if element.partial:
            for key, value in held.items():
                if element_of(key) == index:
                    sums[index, unit_of(key)] += element.type.values.decode(value)
    return sums


def partitioned(program: type[ProgramBase], held: dict[bytes, bytes]) -> dict[bytes, bytes]:
    whole = {index for index, element in enumerate(program.elements().values()) if not element.partial}
    return {key: value for key, value in held.items() if element_of(key) in whole}


def run_plain(program: type[ProgramBase], calls: list[tuple[str, int, int]]) -> tuple[ProgramBase, list[str]] | None:
    """The plain run and its replies as text, for later calls may change them, or None if a call of it raises."""
    plain = program()
    try:
        return plain, [repr(getattr(plain, name)(a, b)) for name, a, b in calls]
    except UnboundLocalError:
        return None


def check_state(program: type[ProgramBase], sequential: Sequential, plain: ProgramBase) -> None:
    held = sequential.state()
    expected = plain_state(plain)
    assert partitioned(program, held) == partitioned(program, expected)
    sums, expected_sums = partial_sums(program, held), partial_sums(program, expected)
    assert {key: total for key, total in sums.items() if total} == {k: t for k, t in expected_sums.items() if t}


def assert_refused_well(refused: ProgramError) -> None:
    assert refused.code.startswith("MP1")
    assert refused.places


def compile_or_refuse(program: type[ProgramBase]) -> CompiledProgram | None:
    try:
        compiled = compile_program(program)
    except ProgramError as refused:
        event(f"refused {refused.code}")
        assert_refused_well(refused)
        return None
    event(f"accepted, {compiled.steps} steps")
    return compiled


ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=3, max_size=9)
MANY = settings(
    max_examples=some_of(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@MANY
@given(text=PROGRAMS, calls=CALLS)
def test_an_accepted_program_does_what_plain_python_does(tmp_path, text, calls):
    program = program_in(load(text, tmp_path))
    compiled = compile_or_refuse(program)
    ran = run_plain(program, calls)
    if compiled is None or ran is None:
        return
    plain, replies = ran
    sequential = Sequential(compiled, LAYOUT.key_groups, LAYOUT.instances)
    assert [repr(sequential.call(name, a, b)) for name, a, b in calls] == replies
    check_state(program, sequential, plain)


@pytest.mark.slow
@MANY
@given(text=PROGRAMS, calls=CALLS)
def test_all_records_step_by_step_do_what_plain_python_does(tmp_path, text, calls):
    program = program_in(load(text, tmp_path))
    compiled = compile_or_refuse(program)
    ran = run_plain(program, calls)
    if compiled is None or ran is None:
        return
    plain, replies = ran
    sequential = Sequential(compiled, LAYOUT.key_groups, LAYOUT.instances)
    assert [repr(reply) for reply in sequential.epoch([(name, (a, b)) for name, a, b in calls])] == replies
    check_state(program, sequential, plain)


@pytest.mark.slow
@MANY
@given(text=sharing_programs(), rows=ROWS)
def test_sharing_is_kept_or_refused(tmp_path, text, rows):
    program = program_in(load(text, tmp_path))
    compiled = compile_or_refuse(program)
    if compiled is None:
        return
    plain = program()
    sequential = Sequential(compiled, LAYOUT.key_groups, LAYOUT.instances)
    for a, b in rows:
        assert repr(sequential.call("one", a, b)) == repr(plain.one(a, b))
    check_state(program, sequential, plain)


@pytest.mark.slow
@MANY
@given(text=raising_programs(), rows=ROWS)
def test_a_call_that_raises_in_plain_python_raises_the_same_when_compiled(tmp_path, text, rows):
    program = program_in(load(text, tmp_path))
    compiled = compile_or_refuse(program)
    if compiled is None:
        return
    plain = program()
    sequential = Sequential(compiled, LAYOUT.key_groups, LAYOUT.instances)
    for a, b in rows:
        expected = outcome(plain.one, a, b)
        event(f"{type(expected).__name__}")
        found = outcome(sequential.call, "one", a, b)
        assert (type(found), str(found)) == (type(expected), str(expected))
        if isinstance(expected, Exception):
            return


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (ArithmeticError, LookupError, UnboundLocalError) as error:
        return error

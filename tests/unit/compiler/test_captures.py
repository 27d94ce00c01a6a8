"""Names that patterns capture: keys like any others, with a value where their case is taken."""

from __future__ import annotations

import pytest

from tests.fuzz.compare import Verdict, compare
from tests.fuzz.helpers import HEAD

STATE = """
@dataclass
class Move:
    what: str
    by: int

class P(Program):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[int, int])
    words = Partitioned(Map[str, int])

"""
NUMBERS = [("go", (k, j)) for k in range(3) for j in range(3)] * 2
COMMANDS = ["put x", "get x", "put y", "put x", "get", "get x y", "", "take y", "put x 3", "get y"]


def indented(body: str) -> str:
    return "".join(f"        {line}\n" for line in body.splitlines())


def run(body: str, signature: str, rows, *, relaxed: bool):
    marked = "@entry(relaxed=True)" if relaxed else "@entry"
    text = f"{HEAD}{STATE}    {marked}\n    def go(self, {signature}) -> str:\n{indented(body)}"
    return compare(text, rows, seed=1)


@pytest.mark.parametrize("relaxed", [False, True], ids=["exact", "relaxed"])
@pytest.mark.parametrize(
    "body",
    [
        """\
match command.split():
    case ["put", name]:
        self.words[name] = self.words.get(name, 0) + 1
        return "ok"
    case ["get", name]:
        return str(self.words.get(name, 0))
    case _:
        return "?"
""",
        """\
match command.split():
    case ["put", name]:
        self.words[name] = self.words.get(name, 0) + 1
    case ["get", name, *others]:
        self.words[name] = 7
    case [name] | ["take", name]:
        self.words[name] = self.words.get(name, 0) - 1
    case others:
        return str(others)
return str(self.words[name])
""",
    ],
)
def test_a_captured_name_is_a_key(body, relaxed):
    outcome = run(body, "command: str", [("go", (command,)) for command in COMMANDS * 2], relaxed=relaxed)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 20)


@pytest.mark.parametrize("relaxed", [False, True], ids=["exact", "relaxed"])
@pytest.mark.parametrize(
    "body",
    [
        """\
match j:
    case x:
        self.a[x] = self.a.get(x, 0) + 1
return str(x)
""",
        """\
x = 7
match j:
    case 0:
        pass
    case x:
        self.a[x] = 1
self.b[x] = 1
return str(x)
""",
        """\
x = 7
match j:
    case 0:
        x = 5
    case x:
        self.a[x] = 1
return str((x, self.b.get(k, 0)))
""",
        """\
x = 7
match j:
    case x if x > 1:
        self.a[x] = 3
    case _:
        self.a[x] = 5
self.b[x] = self.b.get(x, 0) + 1
return str((x, self.b[x]))
""",
        """\
match k, j:
    case 0, x:
        self.a[x] = 1
        return 'a'
    case x, 0:
        self.b[x] = 1
return 'b'
""",
        """\
match Move('up', j):
    case Move('down', x):
        return 'down'
    case Move(_, x):
        self.a[x] = 1
return 'up'
""",
        """\
for z in (k, j):
    match z:
        case 0:
            continue
        case x:
            self.a[x] = 2
return 'x'
""",
    ],
)
def test_captures_do_what_they_do_in_python(body, relaxed):
    outcome = run(body, "k: int, j: int", NUMBERS, relaxed=relaxed)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 18)


def test_captured_names_are_known_from_the_arguments():
    body = """\
match command.split():
    case ["put", name, pieces]:
        self.words[name] = self.words.get(name, 0) + int(pieces)
    case ["move", one, other]:
        self.words[one] = self.words.get(one, 0) - 1
        self.words[other] = self.words.get(other, 0) + 1
"""
    commands = ["put x 3", "move x y", "move y x", "put y 2", "", "put x 1"] * 2
    outcome = run(body + "return 'done'", "command: str", [("go", (command,)) for command in commands], relaxed=False)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 12)


@pytest.mark.parametrize("relaxed", [False, True], ids=["exact", "relaxed"])
@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (
            """\
match k:
    case 0:
        q = j + 1
        self.a[q] = 4
        r = self.a[q]
    case _:
        q = j + 2
        self.b[q] = 5
        r = self.b[q]
return repr(r)
""",
            18,
        ),
        (
            """\
if k > 0:
    q = j + 1
    self.a[q] = 1
    r = 1
if k <= 0:
    q = j + 2
    self.b[q] = 2
    r = 2
return repr(r)
""",
            18,
        ),
        (
            """\
if k == 0:
    q = j + 1
    self.a[q] = 1
    r = 1
elif k == 1:
    q = j + 2
    self.b[q] = 2
    r = 2
else:
    assert k < 2
return repr(r)
""",
            12,
        ),
        (
            """\
if k > 0:
    q = j + 1
    self.a[q] = 1
    r = 1
return repr(r)
""",
            12,
        ),
        (
            """\
if k > 0:
    q = j + 1
    self.a[q] = 1
    r = 1
del r
return 'gone'
""",
            12,
        ),
        (
            """\
if k > 0:
    q = j + 1
    self.a[q] = 1
    r = 1
r += 1
return repr(r)
""",
            12,
        ),
        (
            """\
if k > 0:
    q = j + 1
    self.a[q] = 1
    r = [1]
return repr([r[0] + x for x in r])
""",
            12,
        ),
    ],
)
def test_a_variable_without_a_value_is_none_of_the_module(body, rows, relaxed):
    outcome = run(body, "k: int, j: int", NUMBERS, relaxed=relaxed)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", rows)
    assert relaxed or bool(outcome.raised) == (rows < 18)

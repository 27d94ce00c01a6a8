"""State holds values: programs that share objects in every way, judged by an oracle that knows only the rule.

The generator of these programs writes what people write; each runs in plain Python, sequentially and simulated.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.compare import Verdict
from tests.fuzz.grammar import generate as generate_steered
from tests.sizes import sized, some_of
from tests.values.campaign import case_of
from tests.values.compare import compare
from tests.values.grammar import generate
from tests.values.peers import PEERS
from tests.values.people import PEOPLE
from tests.values.pieces import FEATURES, HEAD, OUTSIDE_OF_ROWS
from tests.values.plain import Ended, expect
from tests.values.shapes import shapes

SEED = 19
AT_ONCE = 5
WRITTEN = PEOPLE | PEERS
REFUSED = {"order book", "feed"}
"""Of what people wrote: these ask for more than the compiler gives today."""


@pytest.mark.parametrize("first", range(0, some_of(100), AT_ONCE))
def test_a_generated_program_does_what_the_rule_says_or_is_refused(first):
    for number in range(first, first + AT_ONCE):
        case, _ = case_of(SEED, number, FEATURES)
        outcome = case.run()
        assert not outcome.failed, (number, outcome.what, outcome.expected, outcome.found)


def test_few_generated_programs_are_refused():
    # Those that change what is outside of a row must be.
    features = [feature for feature in FEATURES if feature not in OUTSIDE_OF_ROWS]
    refused = [case_of(SEED, number, features)[0].run().verdict for number in range(12)].count(Verdict.REFUSED)
    assert refused <= 2


def test_a_method_that_changes_what_is_outside_is_refused_and_one_that_changes_its_object_runs():
    outcomes = {"method": [], "method outside": []}
    for number in range(150):
        shown = generate(SEED, number).features & outcomes.keys()
        feature = "method outside" if "method outside" in shown else min(shown, default="")
        if feature and len(outcomes[feature]) < 8:
            outcomes[feature].append(case_of(SEED, number, FEATURES)[0].run())
    assert {outcome.code for outcome in outcomes["method outside"]} == {"MP122"}
    assert [outcome.verdict for outcome in outcomes["method"]].count(Verdict.SAME) >= 6


def test_every_feature_is_in_one_of_fifty_programs_at_least():
    count = 500
    shown = Counter(feature for number in range(count) for feature in generate(SEED, number).features)
    assert shown.keys() == set(FEATURES)
    assert {feature: many for feature, many in shown.items() if many < count / 50} == {}


def test_a_feature_that_is_not_asked_for_is_not_written():
    for feature in FEATURES:
        others = [one for one in FEATURES if one != feature]
        assert not any(feature in generate(SEED, number, others).features for number in range(20)), feature


def test_equal_numbers_give_equal_programs():
    assert [generate(SEED, number) for number in range(10)] == [generate(SEED, number) for number in range(10)]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_program_as_people_write_it_does_what_the_rule_says(name):
    written = WRITTEN[name]
    assert written.features <= set(FEATURES), "the generator would not have written it"
    for seed in range(sized(4, 1)):
        outcome = compare(written.text, written.rows, seed)
        assert outcome.verdict is Verdict.SAME or name in REFUSED, (outcome.what, outcome.expected, outcome.found)
        assert not outcome.failed, (outcome.what, outcome.expected, outcome.found)


def test_the_generators_write_all_that_people_write():
    texts = [generate(SEED, number).text for number in range(400)]
    texts += [generate_steered(number).text for number in range(400)]
    written = set().union(*map(shapes, texts))
    assert {
        name: sorted(shapes(one.text) - written) for name, one in WRITTEN.items() if shapes(one.text) - written
    } == {}


# The oracle itself: what the rule says about the programs that it was made for.

CUSTOMER = """
@dataclass
class Customer:
    name: str
    tags: list[int]

    @cached_property
    def total(self) -> int:
        return sum(self.tags)

T = [10]

@lru_cache(maxsize=None)
def cached(n):
    return [n]

"""


def replies(element: str, methods: str, *rows: tuple) -> list[object]:
    """The replies of a program with an element of its own and two of lists; an exception by its name."""
    body = "".join(f"    {line}\n" for line in methods.strip().splitlines())
    text = (
        f"{HEAD}{CUSTOMER}class P(Program):\n    a = Partitioned(Map[int, list[int]])\n"
        f"    b = Partitioned(Map[int, list[int]])\n    m = Partitioned(Map[int, {element}])\n{body}"
    )
    return [end.raised or (f"changes {end.outside}" if end.outside else end.reply) for end in expect(text, rows)[0]]


def method(name: str, line: str, parameters: str = "k: int") -> str:
    return f"@entry\ndef {name}(self, {parameters}) -> object:\n    {line}\n"


RULE = {
    "an object in two places is one in the row and two behind it": (
        "int",
        method("one", "self.a[k] = [1]; self.b[k] = self.a[k]; self.b[k].append(2); return self.a[k]")
        + method("two", "self.a[k].append(3); return self.b[k]"),
        (("one", (0,)), ("two", (0,))),
        [[1, 2], [1, 2]],
    ),
    "twice in one value": (
        "list[list[int]]",
        method("one", "x = [k]; self.m[0] = [x, x]; return self.m[0]")
        + method("two", "self.m[0][0].append(9); return self.m[0]"),
        (("one", (5,)), ("two", (5,))),
        [[[5], [5]], [[5, 9], [5]]],
    ),
    "what holds another object holds it as it was": (
        "tuple[int, Customer]",
        method("one", 'self.m[0] = (1, Customer("old", self.a.setdefault(0, []))); return 0')
        + method("two", "self.a[0].append(1); return self.m[0][1].tags"),
        (("one", (0,)), ("two", (0,))),
        [0, []],
    ),
    "a module's list that is stored": (
        "int",
        method("one", "self.a[k] = T; return 0") + method("two", "self.a[k].append(1); return [self.a[k], T]"),
        (("one", (0,)), ("two", (0,)), ("two", (0,))),
        [0, [[10, 1], [10]], [[10, 1, 1], [10]]],
    ),
    "a module's list that a row changes": (
        "int",
        method("one", "self.a[k] = T; self.a[k].append(1); return 0"),
        (("one", (0,)), ("one", (0,))),
        ["changes T"],
    ),
    "a cached function's list that a row changes": (
        "int",
        method("one", "self.a[k] = cached(3); self.a[k].append(1); return 0"),
        (("one", (0,)),),
        ["changes cached(3,)"],
    ),
    "a default of a parameter": (
        "int",
        method("one", "xs.append(1); return len(xs)", "k: int, xs: list[int] = []"),
        (("one", (0,)), ("one", (0,))),
        [1, 1],
    ),
    "a cached property": (
        "Customer",
        method("one", 'c = self.m.setdefault(0, Customer("c", [])); c.tags.append(k); return c.total'),
        (("one", (1,)), ("one", (2,)), ("one", (3,))),
        [1, 3, 6],
    ),
    "the default of get": (
        "int",
        method("one", "d = []; x = self.a.get(k, d); self.b[k] = d; x.append(k); return self.b[k]"),
        (("one", (4,)),),
        [[4]],
    ),
    "a row that raises": (
        "int",
        method("one", "self.a[k] = [1]; self.a[k].append(1 // k); return self.a[k]")
        + method("two", "return list(self.a)"),
        (("one", (0,)), ("two", (0,)), ("one", (1,)), ("two", (0,))),
        ["ZeroDivisionError", [], [1, 1], [1]],
    ),
    "a value that holds itself": (
        "list[list[int]]",
        method("one", "x = []; x.append(x); self.m[k] = x; return 0") + method("two", "return len(self.m)"),
        (("one", (0,)), ("two", (0,))),
        ["MisfitError", 0],
    ),
    "a value of another type": (
        "int",
        method("one", 'self.a[k] = ["x"]; return 0') + method("two", "return len(self.a)"),
        (("one", (0,)), ("two", (0,))),
        ["MisfitError", 0],
    ),
}


@pytest.mark.parametrize("name", RULE)
def test_the_oracle_knows_the_rule(name):
    element, methods, rows, expected = RULE[name]
    assert replies(element, methods, *rows) == expected


def test_the_oracle_passes_and_replies_copies():
    text = f"{HEAD}class P(Program):\n    a = Partitioned(Map[int, list[int]])\n" + "".join(
        f"    {line}\n" for line in method("one", "self.a[0] = xs; return xs", "xs: list[int]").splitlines()
    )
    given = [1]
    ends, state = expect(text, [("one", (given,))])
    assert ends == [Ended([1])]
    ends[0].reply.append(2)
    assert given == [1]
    assert state == {"a": {0: "list[1]"}}

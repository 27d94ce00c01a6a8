"""Which entry points run gathered, what they compile to, and why others are refused."""

from __future__ import annotations

import itertools
import textwrap

import pytest

from millpond import Aborted, Counter, Partitioned, Program, entry
from millpond.compiler import compile_program
from millpond.compiler.compiled import KeySets
from millpond.errors import ProgramError
from millpond.graph.model import Access, Dispatch, Mode
from millpond.state.rowentries import row_container
from tests.golden.programs import load, program_in

BANK = """
class Bank(Program):
    accounts = Partitioned(Map[str, int])
    names = Partitioned(Map[str, str])
    seen = Partitioned(Counter[str])
    parts = Partial(Counter[str])
"""
DEPOSIT = """
    @entry
    def deposit(self, account: str, amount: int) -> int:
        self.accounts[account] = self.accounts.get(account, 0) + amount
        return self.accounts[account]
"""
TRANSFER = """
    @entry
    def transfer(self, source: str, target: str, amount: int) -> int:
        if self.accounts.get(source, 0) < amount:
            return 0
        self.accounts[source] -= amount
        self.accounts[target] = self.accounts.get(target, 0) + amount
        return self.accounts[source]
"""
NAME = """
    @entry
    def name(self, account: str, text: str) -> None:
        self.names[account] = text
"""
LABEL = """
    @entry
    def label(self, account: str) -> str:
        return f"{self.names.get(account, '')}: {self.accounts.get(account, 0)}"
"""
LOOK = """
    @entry
    def look(self, who: str) -> int:
        return self.seen[who]
"""


def compiled(text: str, tmp_path):
    return compile_program(program_in(load(BANK + text, tmp_path)))


def gathered(text: str, tmp_path) -> dict[str, str]:
    return dict(compiled(text, tmp_path).graph.gathered)


def refused(text: str, tmp_path) -> ProgramError:
    """The error of entry points that ask for a faster way than in sequence; without that they are taken."""
    assert compiled(text, tmp_path).graph.sequence
    with pytest.raises(ProgramError) as caught:
        compiled(text.replace("@entry\n", '@entry(way="gathered")\n'), tmp_path)
    return caught.value


def test_what_can_be_ordered_is_not_gathered(tmp_path):
    assert gathered(DEPOSIT + NAME + LABEL + LOOK, tmp_path) == {}


def test_one_element_under_two_keys_is_gathered_and_those_that_share_it(tmp_path):
    found = gathered(DEPOSIT + TRANSFER + NAME + LABEL + LOOK, tmp_path)
    assert found.keys() == {"deposit", "transfer", "name", "label"}
    assert found["transfer"].startswith("transfer visits self.accounts twice (lines ")
    assert found["deposit"] == "transfer does, and both touch self.accounts"
    assert found["name"] == "label does, and both touch self.names"


def test_a_gathered_entry_point_is_one_task(tmp_path):
    entry = compiled(TRANSFER, tmp_path).entries["transfer"]
    (task,) = entry.tasks
    assert (task.index, task.step, task.last, task.key, task.collects) == (0, 0, True, (), "")
    assert task.dispatch is Dispatch.GATHERED
    assert task.inputs == ("source", "target", "amount")
    assert task.accesses == (Access("accounts", Mode.KEYED, writes=True),)
    assert task.keys == KeySets((("accounts", ("source",)), ("accounts", ("target",))), None, ())
    assert (entry.steps, entry.reads_only, entry.commutes, entry.aborts) == (1, False, False, False)


def test_its_code_is_the_method(tmp_path):
    (task,) = compiled(TRANSFER, tmp_path).entries["transfer"].tasks
    accounts = {"a": 5}
    out: list[int] = []
    task.function(out, accounts, ["a", "a", "b", "b"], ["b", "b", "b", "a"], [3, 3, 1, 2])
    assert out == [2, 0, 3, 1]
    assert accounts == {"a": 4, "b": 1}


def test_opposite_orders_are_gathered(tmp_path):
    text = """
    @entry
    def there(self, one: str, other: str) -> None:
        self.names[other] = str(self.accounts.get(one, 0))

    @entry
    def back(self, one: str, other: str) -> None:
        self.accounts[one] = len(self.names.get(other, ""))
"""
    assert gathered(text, tmp_path).keys() == {"there", "back"}


TRIES = """
try:
    self.accounts[a] = 1 // n
    self.seen[b] += 1
except ZeroDivisionError:
    self.accounts[a] = 0
"""
TWO_NAMES = """
one = [a]
two = one
self.seen[a] += 1
self.accounts[b] = 1
one.append(b)
self.seen[a] += len(two)
"""


@pytest.mark.parametrize(
    "body",
    [
        TRIES,
        TWO_NAMES,
        "for k in ks:\n    if self.seen[k] > n:\n        return",
        "self.accounts[a], self.seen[b] = 1, 2",
        "f = lambda x: x + n\nself.seen[a] += 1\nself.accounts[b] = f(1)",
        "match n:\n    case 0 if self.accounts[a] > self.seen[b]:\n        return",
        "return None if any(self.accounts.get(k, 0) for k in ks) else None",
    ],
)
def test_what_a_cut_forbids_is_gathered(body, tmp_path):
    text = """
    @entry
    def go(self, a: str, b: str, n: int, ks: list[str]) -> None:
"""
    assert gathered(text + textwrap.indent(body, "        ") + "\n", tmp_path).keys() == {"go"}


ABORTS = """
    def _check(self, amount: int) -> None:
        if amount < 0:
            self.abort("less than nothing")

    def _known(self, account: str) -> int:
        if account not in self.accounts:
            self.abort(f"no account {account}")
        return self.accounts[account]

    @entry
    def plain(self, who: str) -> None:
        self.seen[who] += 1

    @entry
    def checked(self, account: str, amount: int) -> int:
        self._check(amount)
        self.accounts[account] = self._known(account) + amount
        return self.accounts[account]
"""


def test_an_entry_point_that_may_abort_is_gathered(tmp_path):
    program = compiled(ABORTS, tmp_path)
    assert dict(program.graph.gathered) == {"checked": "it may abort, which undoes all that it changed"}
    assert program.entries["checked"].aborts
    assert not program.entries["plain"].aborts
    (task,) = program.entries["checked"].tasks
    accounts = {"a": 1}
    out: list[int] = []
    for account, amount, reason in (("a", -1, "less than nothing"), ("b", 1, "no account b")):
        with pytest.raises(Aborted) as caught:
            task.function(out, accounts, [account], [amount])
        assert caught.value.reason == reason
    task.function(out, accounts, ["a"], [2])
    assert out == [3]


def test_an_entry_point_may_abort_without_state(tmp_path):
    text = """
    @entry
    def go(self, n: int) -> int:
        if n < 0:
            self.abort("less than nothing")
        return n
"""
    (task,) = compiled(text, tmp_path).entries["go"].tasks
    assert task.dispatch is Dispatch.GATHERED
    assert task.keys == KeySets((), None, ())


def test_a_pointer_is_refused_with_both_reasons(tmp_path):
    error = refused(
        """
    @entry
    def go(self, a: str) -> None:
        top = self.names.get(a, a)
        self.names[top] = a
""",
        tmp_path,
    )
    assert error.code == "MP150"
    assert "MP181" in str(error.found)
    assert "two steps" in str(error.hint)
    assert len(error.places) == 2


def test_a_partial_element_is_refused_where_it_is_touched(tmp_path):
    error = refused(
        TRANSFER
        + """
    @entry
    def count(self, account: str) -> int:
        self.parts[account] += 1
        return self.accounts.get(account, 0)
""",
        tmp_path,
    )
    assert error.code == "MP180"
    assert "transfer does, and both touch self.accounts" in str(error.found)


def test_what_only_touches_partial_elements_is_refused_as_ever(tmp_path):
    error = refused(
        """
    @entry
    def go(self, a: str) -> int:
        before = merged(each(self.parts).get(a, 0), sum)
        self.parts[a] += 1
        return before
""",
        tmp_path,
    )
    assert error.code == "MP152"
    assert "gathered" not in str(error)


def test_relaxed_entry_points_stay_relaxed(tmp_path):
    relaxed = TRANSFER.replace("@entry", "@entry(relaxed=True)")
    program = compiled(relaxed + LOOK, tmp_path)
    assert program.graph.gathered == ()
    assert program.graph.relaxed == {"transfer"}


def test_a_relaxed_entry_point_on_a_gathered_element_is_gathered_and_exact(tmp_path):
    relaxed = TRANSFER.replace("@entry", "@entry(relaxed=True)").replace("def transfer", "def slowly")
    program = compiled(TRANSFER + relaxed, tmp_path)
    assert program.graph.relaxed == frozenset()
    assert dict(program.graph.gathered).keys() == {"transfer", "slowly"}


def test_an_error_of_another_kind_is_told_as_it_is(tmp_path):
    error = refused(
        TRANSFER
        + """
    @entry
    def whole(self, n: int) -> int:
        return len(self.accounts) + n
""",
        tmp_path,
    )
    assert error.code == "MP132"


def test_every_one_of_several_faults_is_gathered(tmp_path):
    text = """
    @entry
    def one(self, a: str, b: str) -> None:
        self.seen[a] += 1
        self.seen[b] += 1

    @entry
    def two(self, a: str, b: str) -> None:
        self.names[a] = self.names.get(b, "")
"""
    found = gathered(text + DEPOSIT, tmp_path)
    assert found.keys() == {"one", "two"}
    assert all(why.startswith(f"{name} visits") for name, why in found.items())


MUTABLE = """
class Feeds(Program):
    feeds = Partitioned(Map[str, list[str]])

    @entry
    def share(self, source: str, target: str) -> list[str]:
        items = self.feeds.setdefault(source, [])
        items.append(target)
        self.feeds.setdefault(target, []).extend(items)
        return items

    @entry
    def both(self, one: str, other: str) -> dict[str, list[str]]:
        found = {}
        for name in (one, other):
            found[name] = self.feeds.get(name, [])
        return found
"""


def test_replies_are_copies_of_state(tmp_path):
    program = compile_program(program_in(load(MUTABLE, tmp_path)))
    feeds: dict[str, list[str]] = {}
    shared: list[list[str]] = []
    container = row_container(program.elements["feeds"].type, feeds)
    program.entries["share"].tasks[0].function(shared, container, ["a", "a"], ["b", "c"])
    both: list[dict[str, list[str]]] = []
    program.entries["both"].tasks[0].function(both, container, ["a"], ["b"])
    assert shared == [["b"], ["b", "c"]]
    assert both == [{"a": ["b", "c"], "b": ["b"]}]
    replied = [*shared, *both[0].values()]
    assert not any(one is stored for one, stored in itertools.product(replied, feeds.values()))


def test_a_gathered_entry_point_that_only_reads_says_so(tmp_path):
    program = compile_program(program_in(load(MUTABLE, tmp_path)))
    assert not program.entries["share"].reads_only


def test_a_loop_whose_head_touches_state_is_no_fan_out():
    class Waiting(Program):
        tickets = Partitioned(Counter[int])

        @entry
        def serve(self, desk: int, turns: int) -> int:
            while turns > 0 and isinstance(self.tickets[desk], int):
                turns -= 1
                self.tickets[desk % 3] += 1
            return turns

    assert compile_program(Waiting).entries["serve"].tasks[0].dispatch is Dispatch.GATHERED

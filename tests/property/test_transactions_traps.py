"""What gathered execution may get wrong, one small program each: run gathered or in sequence, and as plain Python."""

from __future__ import annotations

import textwrap

import pytest

from tests.fuzz.compare import Verdict
from tests.fuzz.helpers import HEAD
from tests.fuzz.transactions.compare import compare
from tests.property.transaction_traps import TRAPS

pytestmark = pytest.mark.slow

SEEDS = range(3)


def program(body):
    return f"{HEAD}\nclass Trap(Program):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_a_trap_gives_what_plain_python_gives(trap):
    for seed in SEEDS:
        outcome = compare(program(trap.body), trap.rows, seed)
        assert outcome.verdict is Verdict.SAME, f"{outcome.what}\n{outcome.expected}\n{outcome.found}"
        assert (outcome.gathered > 0) is not trap.in_sequence

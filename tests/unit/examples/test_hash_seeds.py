from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sizes import sized

ROOT = Path(__file__).parents[3]

SCRIPT = """
import hashlib
from examples.films import Rating, make_evening
from examples.fraud_rules import FraudRules, Notice, make_events
from examples.kv_store import KeyValueStore
from examples.recommender import Recommender
from examples.word_count import LineCount, WordCount
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential

for program in (Recommender, KeyValueStore, WordCount, LineCount, FraudRules):
    print(program.explain())

told = []
films = Sequential(compile_program(Recommender))
for event in make_evening(1, members=20, ratings=200, requests=30, finale=3).events:
    if isinstance(event, Rating):
        films.call("rate", event.user, event.film, event.stars)
    else:
        told.append(films.call("recommend", event.user))
rules = Sequential(compile_program(FraudRules))
for event in make_events(1, 200, 5):
    if isinstance(event, Notice):
        rules.call("announce", event.account, event.country)
    else:
        told.append(rules.call("pay", event.account, event.cents, event.country, event.at))
for what in (told, sorted(films.state().items()), sorted(rules.state().items())):
    print(hashlib.sha256(repr(what).encode()).hexdigest())
"""


def told_under(seed):
    environ = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_graphs_replies_and_state_bytes_do_not_depend_on_pythons_hash_seed():
    first, *others = (told_under(seed) for seed in sized(("0", "1", "4294967295"), ("0", "1")))
    assert "program Recommender" in first
    assert set(others) == {first}

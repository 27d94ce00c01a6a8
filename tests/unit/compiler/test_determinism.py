"""What gives another result when it is run again is refused, whatever it is called and wherever it is hidden."""

from __future__ import annotations

import pytest

from millpond.compiler.compile import draft_program
from millpond.compiler.front.restrict import restrict
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in

HEAD = """
import asyncio, bz2, collections, concurrent.futures, datetime, datetime as dt, decimal, functools, getpass, gzip
import hashlib, heapq, http.client, io, itertools, json, math, multiprocessing, os, os.path, pathlib, platform, random
import operator, secrets, shutil, socket, sqlite3, string, subprocess, sys, tempfile, threading, time, urllib.parse
import urllib.request, uuid, zlib
import numpy as np
import numpy.random
from datetime import date, datetime as moment
from os import environ, getenv, urandom
from pathlib import Path, PurePath
from random import Random, choice as pick, random as chance
from time import perf_counter, time as clock
from uuid import uuid4 as fresh

RNG = random.Random(4)
GENERATOR = np.random.default_rng(4)
HOME = Path("home")
now = dt.datetime.now
later = functools.partial(time.monotonic)
LIMIT = 5

def pure(x):
    return math.sqrt(x) + LIMIT

def hidden():
    return time.time()

def deeper(x):
    return [hidden() for _ in range(x)]

def circle(x):
    return square(x) if x else 0

def square(x):
    return circle(x - 1)

@functools.cache
def cached(x):
    return os.environ.get(x)

@functools.cache
def fine(x):
    return x + 1

def by_member():
    return dt.datetime.now()

def by_other_name():
    kind = dt.datetime
    return kind.now()

def by_text():
    return getattr(dt.datetime, "now")()

def by_hash():
    return "x".__hash__()

ask = operator.methodcaller("now")

class Made:
    def __init__(self):
        self.at = dt.datetime.utcnow()

class Kept:
    def __init__(self):
        self.at = 0

"""

REFUSED = [
    "time.time()", "clock()", "perf_counter()", "time.monotonic_ns()", "time.localtime()", "time.sleep(1)",
    "datetime.datetime.now()", "dt.datetime.utcnow()", "moment.now()", "moment.today()", "date.today()", "now()",
    "later()", "random.random()", "random.Random(1).random()", "Random(3)", "pick([1])", "chance()", "RNG.random()",
    "random.SystemRandom()", "secrets.token_hex()", "np.random.rand()", "numpy.random.default_rng(1)",
    "GENERATOR.random()", "os.urandom(4)", "urandom(4)", "uuid.uuid1()", "uuid.uuid4()", "fresh()", "uuid.getnode()",
    "id(x)", "hash(x)", "open('a')", "io.open('a')", "input()", "breakpoint()", "eval('1')", "exec('1')", "globals()",
    "locals()", "vars()", "__import__('os')", "os.environ['A']", "environ.get('A')", "getenv('A')", "os.getcwd()",
    "os.getpid()", "os.listdir()", "os.stat('a')", "os.system('a')", "os.cpu_count()", "os.path.exists('a')",
    "os.path.abspath('a')", "HOME.read_text()", "HOME.exists()", "Path('a')", "pathlib.Path.cwd()", "pathlib.Path('a')",
    "socket.gethostname()", "urllib.request.urlopen('a')", "http.client.HTTPConnection('a')", "subprocess.run(['a'])",
    "threading.Thread()", "threading.get_ident()", "multiprocessing.Pool()", "concurrent.futures.ThreadPoolExecutor()",
    "asyncio.run(x)", "platform.node()", "getpass.getuser()", "sys.argv", "sys.stdin.read()", "sqlite3.connect('a')",
    "tempfile.mkdtemp()", "shutil.copy('a', 'b')", "gzip.compress(b'')", "hidden()", "deeper(x)", "cached('A')",
    "by_member()", "Made().at", "list(map(hidden, []))", "getattr(datetime.datetime, 'now')()",
    "getattr(dt, 'date').today()", "getattr(dt.datetime, str(x))()", "operator.methodcaller('now')(moment)",
    "operator.attrgetter('datetime.now')(dt)()",
    "ask(moment)", "'x'.__hash__()", "getattr('x', '__hash__')()", "str.__hash__('x')", "by_other_name()", "by_text()",
    "by_hash()", "[m.now() for m in (moment, moment)]", "(moment if x else date).today()", "{1: moment}[1].now()",
    "moment(2026, 1, 1).now()", "self.now.now()", "(o := os).getcwd()",
]  # fmt: skip

FINE = [
    "math.sqrt(x)", "pure(x)", "circle(x)", "fine(x)", "Kept().at", "datetime.datetime(2026, 1, 1)",
    "datetime.timedelta(1)", "moment.fromisoformat('2026-01-01')", "date(2026, 1, 1)", "uuid.UUID(int=x)",
    "uuid.uuid5(uuid.NAMESPACE_DNS, 'a')", "hashlib.sha256(b'a').hexdigest()", "zlib.crc32(b'a')", "json.dumps(x)",
    "os.path.join('a', 'b')", "os.path.basename('a/b')", "os.sep", "PurePath('a').suffix", "HOME.suffix",
    "collections.Counter([x])", "decimal.Decimal(x)", "itertools.chain([x])", "heapq.nlargest(1, [x])",
    "urllib.parse.quote('a')", "string.ascii_letters", "np.zeros(x).sum()", "bz2.compress(b'')", "sys.maxsize",
    "getattr(x, 'real')", "getattr(math, 'pi')", "operator.attrgetter('real')(x)",
    "operator.methodcaller('lower')('A')",
    "getattr(x, 'now', 0)", "[m.max for m in (moment, moment)]", "print(x)",
    "functools.reduce(max, [x])", "gzip.decompress(b'')", "LIMIT",
]  # fmt: skip


def compile_one(tmp_path, expression):
    body = f"class P(Program):\n    @entry\n    def go(self, x: int) -> object:\n        return {expression}\n"
    return draft_program(program_in(load(HEAD + body, tmp_path)), until=restrict)


@pytest.mark.parametrize("expression", REFUSED)
def test_what_differs_between_runs_is_refused(expression, tmp_path):
    with pytest.raises(ProgramError) as caught:
        compile_one(tmp_path, expression)
    assert caught.value.code == "MP117"
    assert caught.value.places


@pytest.mark.parametrize("expression", FINE)
def test_what_only_computes_is_fine(expression, tmp_path):
    assert [method.name for method in compile_one(tmp_path, expression).methods] == ["go"]


@pytest.mark.parametrize(
    ("expression", "alternative"),
    [
        ("time.time()", "self.now"),
        ("dt.datetime.now()", "self.now"),
        ("random.random()", "self.random"),
        ("np.random.rand()", "self.random"),
        ("uuid.uuid4()", "self.random"),
        ("hash('a')", "zlib.crc32"),
        ("Path('a')", "PurePath"),
        ("deeper(x)", "it uses time.time: the clock differs at every run; self.now does not"),
    ],
)
def test_the_refusal_names_the_alternative(expression, alternative, tmp_path):
    with pytest.raises(ProgramError) as caught:
        compile_one(tmp_path, expression)
    assert alternative in str(caught.value)


def test_a_variable_of_the_method_is_not_the_module_of_its_name(tmp_path):
    body = """
class P(Program):
    @entry
    def go(self, time: int, random: list[int]) -> int:
        hash = time
        return hash + len(random)
"""
    draft = draft_program(program_in(load(HEAD + body, tmp_path)), until=restrict)
    assert [method.name for method in draft.methods] == ["go"]


@pytest.mark.parametrize(
    "lines",
    [
        ["n = datetime.datetime", "return n.now()"],
        ["n = datetime", "m = n.datetime", "return m.now()"],
        ["for n in (dt.datetime, dt.date):", "    return n.today()"],
        ["n = {'a': moment}", "return n['a'].utcnow()"],
        ["n = HOME", "return n.read_text()"],
        ["return when.now()"],
        ["return getattr(when, 'today')()"],
    ],
)
def test_another_name_does_not_hide_it(lines, tmp_path):
    body = "".join(f"        {line}\n" for line in lines)
    head = "class P(Program):\n    @entry\n    def go(self, x: int, when: dt.datetime) -> object:\n"
    with pytest.raises(ProgramError) as caught:
        draft_program(program_in(load(HEAD + head + body, tmp_path)), until=restrict)
    assert caught.value.code == "MP117"

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from millpond.cli import app
from millpond.cli.check import check_paths
from tests.golden.programs import HEAD
from tests.golden.test_golden import CASES, sections
from tests.sizes import sized

MODES = pytest.mark.parametrize("mode", [(), ("--no-import",)], ids=["imported", "not imported"])

GOOD = """
    from millpond import Counter, Partitioned, Program, entry

    class Fine(Program):
        seen = Partitioned(Counter[str])

        @entry
        def add(self, word: str) -> None:
            self.seen[word] += 1
"""

BANK = """
    from millpond import Map, Partitioned, Program, entry

    class Bank(Program):
        accounts = Partitioned(Map[str, int])

        @entry
        def transfer(self, source: str, target: str, amount: int) -> None:
            self.accounts[source] -= amount
            self.accounts[target] += amount
"""

BAD = """
    from millpond import Counter, Map, Partitioned, Program, entry; from collections.abc import Iterator

    class Shop(Program):
        stock = Partitioned(Map[str, int])
        sold = Partitioned(Counter[str])

        @entry
        def first(self, item: str) -> Iterator[int]:
            x = yield 1

        @entry
        def second(self, item: str) -> int:
            global total
            return 1

        @entry
        def third(self, item) -> int:
            return 1

        @entry(way="gathered")
        def fourth(self, item: str) -> int:
            return self.fifth(item)

        @entry
        def fifth(self, item: str) -> int:
            return self.stock[item]

    class Second(Program):
        @entry
        def only(self, item: str):
            return item

    class Fine(Program):
        seen = Partitioned(Counter[str])

        @entry
        def add(self, word: str) -> None:
            self.seen[word] += 1
"""

DISAGREE = """
    from millpond import Counter, Partitioned, Program, entry

    class Both(Program):
        a = Partitioned(Counter[int])
        b = Partitioned(Counter[int])

        @entry(way="gathered")
        def there(self, k: int) -> None:
            j = self.a[k]
            self.b[j] += 1

        @entry(way="gathered")
        def back(self, k: int) -> None:
            j = self.b[k]
            self.a[j] += 1

        @entry
        def bad(self, k: int) -> int:
            return hash(k)
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text: str, name: str = "shop.py") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    yield write
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def check(*arguments: object):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def codes(result) -> dict[str, list[str]]:
    report = json.loads(result.stdout)
    programs = [program for file in report["files"] for program in file["programs"]]
    return {program["name"]: [error["code"] for error in program["errors"]] for program in programs}


@MODES
def test_programs_that_compile_are_fine(write, mode):
    result = check(write(GOOD), *mode)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == ["  Fine: ok", "programs: 1, refused: 0, errors: 0"]


@MODES
def test_entry_points_that_run_gathered_are_named(write, mode):
    result = check(write(BANK), *mode)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:3] == [
        "  Bank: ok",
        "    transfer runs gathered: transfer visits self.accounts twice (lines 9, 10)",
    ]
    (file,) = json.loads(check(write(BANK), "--format", "json", *mode).stdout)["files"]
    assert [list(program["gathered"]) for program in file["programs"]] == [["transfer"]]


@MODES
def test_every_entry_point_and_every_program_tells_its_error(write, mode):
    result = check(write(BAD), "--format", "json", *mode)
    assert result.exit_code == 1
    assert codes(result) == {"Shop": ["MP104", "MP111", "MP113", "MP119"], "Second": ["MP105"], "Fine": []}


@MODES
def test_what_no_entry_point_is_to_blame_for_alone_is_told_too(write, mode):
    assert codes(check(write(DISAGREE), "--format", "json", *mode)) == {"Both": ["MP117", "MP151"]}


@MODES
def test_errors_are_shown_at_their_line(write, mode):
    file = write(BAD)
    lines = check(file, *mode).stdout.splitlines()
    at = lines.index("MP111 a method can't yield or await")
    assert lines[at + 1] == f"  {file}:10:13"
    assert lines[at + 3].endswith("^^^^^^^")
    assert lines[-1] == "programs: 3, refused: 2, errors: 5"


@MODES
def test_a_declaration_that_is_refused_hides_no_other_error(write, mode):
    text = GOOD.replace("Counter[str])", "Counter[float])") + BAD.replace("class Fine", "class Other")
    found = codes(check(write(text), "--format", "json", *mode))
    assert found == {"Fine": ["MP202"], "Shop": ["MP104", "MP111", "MP113", "MP119"], "Second": ["MP105"], "Other": []}


MANY = """
    from millpond import *

    class Shop(Program):
        stock = Partitioned(Map[str, int])
        sold = Partitioned(Map[float, int])
        last = Partitioned(Map[int, object])

        def _told(self, item: str) -> int:
            print(item)
            self.told = 1
            return self.stock.get(item, 0)

        @entry
        def sell(self, item: str, **pieces: int) -> str:
            self.count = 1
            for name in [item]:
                stock = self.stock
                with open(name) as file:
                    hash(file)
            match item:
                case "":
                    import time
                case _:
                    self.sold[1.5] = 1
            return str(self._told(item))

        @entry
        def fine(self, item: str) -> int:
            return self.stock.get(item, 0)

    class Good(Program):
        stock = Partitioned(Map[str, int])

        @entry
        def put(self, item: str) -> None:
            self.stock[item] = 1
"""


@MODES
def test_every_statement_tells_its_error_and_no_class_hides_another(write, mode):
    file = write(MANY)
    result = check(file, "--format", "json", *mode)
    assert codes(result) == {
        "Shop": ["MP202", "MP208", "MP103", "MP114", "MP114", "MP117", "MP117", "MP123"],
        "Good": [],
    }
    (shown,) = json.loads(result.stdout)["files"]
    places = [error["places"][0] for error in shown["programs"][0]["errors"]]
    assert [place["line"] for place in places] == [6, 7, 15, 11, 16, 19, 20, 23]
    assert {place["file"] for place in places} == {str(file)}
    parameter = places[2]
    assert parameter["text"][parameter["column"] - 1 :][: parameter["width"]] == "pieces: int"


def test_a_file_that_only_running_it_tells_of_still_tells_what_was_refused(write):
    write("from millpond import *\nclass Base(Program):\n    pass\n", "base.py")
    text = """
        import sys, pathlib
        sys.path.insert(0, str(pathlib.Path(__file__).parent))
        from base import *

        class Shop(Base):
            sold = Partitioned(Map[float, int])
    """
    result = check(write(text), "--format", "json")
    assert codes(result) == {"Shop": ["MP202"]}
    (shown,) = json.loads(result.stdout)["files"]
    assert shown["programs"][0]["errors"][0]["places"][0]["line"] == 7


@pytest.mark.parametrize(
    ("text", "code"),
    [("class Fine(:\n", "MP714"), ("x = 1\n", "MP716"), ("import no_such_module_at_all\n", "MP715")],
)
def test_a_file_that_can_not_be_looked_at_exits_with_two(write, text, code):
    result = check(write(text), write(BAD, "bad.py"))
    assert result.exit_code == 2
    assert code in result.stdout
    assert "MP111" in result.stdout


def test_a_missing_file_exits_with_two(tmp_path):
    result = check(tmp_path / "none.py")
    assert (result.exit_code, "MP714" in result.stdout) == (2, True)


@MODES
def test_a_folder_is_looked_through(write, tmp_path, mode):
    write(GOOD, "deep/er/fine.py")
    write("raise SystemExit('I was run')\n", "deep/script.py")
    write(GOOD, "deep/.hidden/fine.py")
    result = check(tmp_path / "deep", *mode)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "programs: 1, refused: 0, errors: 0"


def test_files_of_one_name_and_modules_of_packages_are_told_apart(write, tmp_path):
    write("", "pack/__init__.py")
    write("LIMIT = 3\n", "pack/limits.py")
    packed = write("from .limits import LIMIT\n" + dedent(GOOD), "pack/shop.py")
    result = check(packed, write(BAD), "--format", "json")
    assert codes(result)["Shop"] == ["MP104", "MP111", "MP113", "MP119"]
    assert [len(file["programs"]) for file in json.loads(result.stdout)["files"]] == [1, 3]


def test_what_runs_in_sequence_is_told(write):
    text = dedent(GOOD) + dedent("""
        class Walks(Program):
            seen = Partitioned(Counter[str])

            @entry
            def total(self) -> int:
                return sum(self.seen.values())
    """)
    (file,) = json.loads(check(write(text), "--format", "json").stdout)["files"]
    assert [list(program["sequence"]) for program in file["programs"]] == [[], ["total"]]
    assert "total runs in sequence: this needs all of self.seen" in check(write(text)).stdout


def test_what_a_module_prints_does_not_spoil_the_report(write):
    assert codes(check(write("print('hello')\n" + dedent(GOOD)), "--format", "json")) == {"Fine": []}


def test_a_base_that_only_others_build_on_is_no_program(write):
    text = dedent(GOOD).replace("class Fine(Program):", "class Base(Program):\n    LIMIT = 1\n\nclass Fine(Base):")
    for mode in ((), ("--no-import",)):
        assert codes(check(write(text), "--format", "json", *mode)) == {"Fine": []}


def test_an_exception_of_the_compiler_is_told_as_its_bug(write, monkeypatch):
    from millpond.cli import check as checks

    def broken(_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(checks, "draft_program", broken)
    result = check(write(GOOD), "--format", "json")
    assert (result.exit_code, codes(result)) == (1, {"Fine": ["MP717"]})


UNTRUSTED = """
    from __future__ import annotations
    import dataclasses, enum, pathlib, typing
    from typing import NamedTuple
    from millpond import Counter, Map, Partial, Partitioned, Program, entry
    from somewhere import Money, helper
    from .beside import *

    def run(*what):
        pathlib.Path(__file__).with_name("ran").write_text("ran")
        return what[0] if what else int

    run()
    LIMIT = run()

    class Kind(enum.Enum):
        A = run()
        B = 2

    class Spot(NamedTuple):
        x: int
        y: run()

    @dataclasses.dataclass(**run({}))
    class Odd:
        x: int = run()

    @dataclasses.dataclass
    class Account:
        name: str = run()
        spent: list[float] = dataclasses.field(default_factory=run)

        def __init_subclass__(cls):
            run()

        def __class_getitem__(cls, key):
            run()

        def __post_init__(self):
            run()

        def total(self):
            return run()

    class Meta(type):
        def __new__(cls, *args):
            run()
            return super().__new__(cls, *args)

    class Shop(Program):
        accounts = Partitioned(Map[str, Account])
        kinds = Partitioned(Map[int, Kind])
        money = Partitioned(Map[int, Money])
        made = Partitioned(Map[int, run(int)])
        quoted = Partitioned(Map[int, "run(int)"])
        constant = run()
        [run() for _ in range(3)]

        def __init_subclass__(cls):
            run()

        @run
        def decorated(self, x=run()):
            return x

        @entry
        def pay(self, account: str, amount: "run(float)", spot: Spot | run(), more: list["run(int)"]) -> run():
            return self.accounts[account].spent

        @entry
        def late(self, k: int, *, option: run() = run()) -> int:
            return hash(k)

    class Sub(Shop, metaclass=Meta):
        pass

    class Mixed(Account["x"], Program):
        pass
"""


def test_nothing_of_an_untrusted_file_is_run(write, tmp_path):
    result = check(write(UNTRUSTED), "--no-import", "--format", "json")
    assert not (tmp_path / "ran").exists()
    report = json.loads(result.stdout)
    hidden = [error["summary"] for error in report["files"][0]["errors"]]
    assert len(hidden) == 3, hidden
    assert codes(result)["Shop"] == ["MP117"]
    assert "Money" in str(report["files"][0]["programs"][0]["trusted"])
    check(write(UNTRUSTED.replace("from somewhere import Money, helper", "").replace("from .beside import *", "")))
    assert (tmp_path / "ran").exists(), "the test can tell: an import does run it"


def test_a_module_that_only_has_a_trusted_name_is_not_imported(write, tmp_path, monkeypatch):
    write("import pathlib\npathlib.Path(__file__).with_name('ran').write_text('x')\n", "colorsys.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert check(write("import colorsys\n" + dedent(GOOD)), "--no-import").exit_code == 0
    assert not (tmp_path / "ran").exists()


def test_types_that_can_not_be_seen_are_named(write):
    text = dedent(GOOD).replace("word: str", "word: Word").replace("class Fine", "from words import Word\n\nclass Fine")
    assert "  Fine: ok (taken on trust: Word)" in check(write(text), "--no-import").stdout.splitlines()


def test_a_base_in_another_module_can_not_be_seen(write):
    text = "from bases import BaseProgram\n\nclass Fine(BaseProgram):\n    pass\n"
    result = check(write(text), "--no-import")
    assert result.exit_code == 2
    assert "MP719" in result.stdout


def test_deep_nesting_is_no_crash(write):
    result = check(
        write(dedent(GOOD) + "x = " + "(" * 190 + "1" + ")" * 190 + "\ny = " + "-" * 5000 + "1\n"), "--no-import"
    )
    assert result.exit_code in (0, 2)


@pytest.mark.parametrize("case", CASES[:: sized(1, 4)], ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_file_is_judged_the_same_whether_it_is_imported_or_not(write, case):
    file = write(HEAD + sections(case.read_text(encoding="utf-8"))["program"], f"{case.stem}.py")
    imported, unseen = (check_paths([file], importing=importing)[0] for importing in (True, False))
    assert unseen.errors == []
    assert [(p.name, list(map(str, p.errors))) for p in unseen.programs] == [
        (p.name, list(map(str, p.errors))) for p in imported.programs
    ]
    code = case.stem.partition("_")[0]
    # A class that is abstract is no program to check: only who wants to run it is refused.
    if case.parent.name == "errors" and code != "MP149":
        assert code in {error.code for p in imported.programs for error in p.errors}


@MODES
def test_state_that_expires_and_timers_are_seen(write, mode):
    text = """
        from datetime import datetime, timedelta
        from millpond import Counter, Partitioned, Program, entry, on_timer

        class Timed(Program):
            seen = Partitioned(Counter[str], ttl=timedelta(minutes=2 * 3))

            @entry
            def visit(self, key: str) -> None:
                self.seen[key] += 1
                self.leave.set(key, self.now + timedelta(hours=1))

            @on_timer
            def leave(self, key: str, at: datetime) -> int:
                return self.seen.pop(key, 0)
    """
    assert codes(check(write(text), "--format", "json", *mode)) == {"Timed": []}
    unhinted = text.replace("at: datetime", "at")
    assert codes(check(write(unhinted), "--format", "json", *mode)) == {"Timed": ["MP104"]}


COPIES = """
    from millpond import *

    class Kept(Program):
        a = Partitioned(Map[str, list[int]])
        b = Partitioned(Map[str, list[int]])

        @entry
        def straight(self, key: str) -> None:
            self.a[key] = self.b[key]

        @entry
        def walk(self, key: str) -> int:
            for other in self.b:
                self.a[other] = self.b[other]
            self.b[key] = list(self.a[key])
            return len(self.b)
"""


@MODES
def test_what_is_stored_as_a_copy_is_told_in_all_ways_to_run(write, mode):
    result = check(write(COPIES), *mode)
    told = [line.partition("stored as")[2] for line in result.stdout.splitlines() if "warning" in line]
    assert told == [
        " a copy in self.a, since it is also in self.b[key]",
        " a copy in self.a, since it is also in self.b[other]",
    ]

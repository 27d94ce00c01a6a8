from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
from millpond import Map, Partitioned, Program, entry

FRUITS = {"apple", "banana", "cherry", "date", "elder", "fig"}
SAME = FRUITS
GROUPS = {frozenset(("a", "b", "c")), frozenset(("d", "e", "f"))}
KINDS = {int, str}

class Fruits(Program):
    seen = Partitioned(Map[str, int])

    @entry
    def put(self, name: str) -> int:
        known = name in FRUITS and SAME and GROUPS and KINDS and name in {"x", "y", "z", "apple"}
        self.seen[name] = int(bool(known))
        return 0
"""
PACK = """
import sys; from pathlib import Path
from fruits import Fruits
from millpond.compiler.compile import compile_program
from millpond.spark.ship import pack
Path(sys.argv[1]).write_bytes(pack(compile_program(Fruits), Fruits).data)
"""
UNPACK = """
import io, sys; from pathlib import Path
from millpond.spark.ship import _Unpickler
program = _Unpickler(io.BytesIO(Path(sys.argv[1]).read_bytes())).load()
function = program.entries["put"].tasks[0].function
names = function.__globals__
consts = [value for code in (function.__code__,) for value in code.co_consts if isinstance(value, frozenset)]
assert names["SAME"] is names["FRUITS"]
assert names["KINDS"] == {int, str}
print(list(names["FRUITS"]), [list(each) for each in names["GROUPS"]], [list(each) for each in consts])
"""


def run(code, folder, seed, *words):
    environ = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{folder}:{ROOT}"}
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_walk_the_sets_of_a_module_alike_whatever_the_hash_seed_of_the_driver(tmp_path):
    (tmp_path / "fruits.py").write_text(PROGRAM)
    seen = set()
    for seed in ("1", "2", "3"):
        run(PACK, tmp_path, seed, str(tmp_path / seed))
        (tmp_path / "fruits.py").touch()
        seen.add(run(UNPACK, ROOT, "0", str(tmp_path / seed)))
    assert len(seen) == 1


WALKS = """
import threading
from millpond import Map, Partitioned, Program, entry

LOCK = threading.Lock()

class Walks(Program):
    seen = Partitioned(Map[str, int])
    LIMIT = 3

    @entry
    def total(self) -> int:
        return sum(self.seen.values()) + self._more() + self.limit

    def _more(self) -> int:
        return 1

    @property
    def limit(self) -> int:
        return self.LIMIT

    @classmethod
    def main(cls) -> object:
        return LOCK
"""
PACK_WALKS = """
import sys; from pathlib import Path
from walks import Walks
from millpond.compiler.compile import compile_in_sequence
from millpond.spark.ship import pack
Path(sys.argv[1]).write_bytes(pack(compile_in_sequence(Walks), Walks).data)
"""
UNPACK_WALKS = """
import io, sys; from pathlib import Path
from millpond.spark.ship import _Unpickler
program = _Unpickler(io.BytesIO(Path(sys.argv[1]).read_bytes())).load().shipped
print(*sorted(name for name in vars(program) if not name.startswith("__")))
"""


def test_a_class_travels_with_what_rows_need_of_it(tmp_path):
    (tmp_path / "walks.py").write_text(WALKS)
    run(PACK_WALKS, tmp_path, "0", str(tmp_path / "packed"))
    (tmp_path / "walks.py").unlink()
    found = run(UNPACK_WALKS, tmp_path, "0", str(tmp_path / "packed")).split()
    assert found == ["LIMIT", "_dropped", "_elements", "_more", "limit", "seen", "total"]

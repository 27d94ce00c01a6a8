"""The campaign of habits: `python -m tests.values.manners --count N --seed S` prints JSON last.

Plain Python is the oracle: the same rows are called on an instance. The run is compiled, on 1 to 7 partitions, with any
cut into epochs, and every third one loses a process on the way.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from millpond.errors import ProgramError
from millpond.testing import assert_equals_plain, crash, simulate
from tests.values.habits import HABITS, Written, write

MERGES = {"hits": sum, "rules": lambda told: told[0]}


def load(made: Written, folder: Path, name: str) -> Any:
    """Import the text of a program."""
    path = folder / f"{name}.py"
    path.write_text(made.text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(seed: int, number: int) -> tuple[str, str, Written]:
    """Run one program: `same`, `refused`, `mismatch` or `crash`, and what was found."""
    made = write(seed, number)
    dice = random.Random(f"run {seed} {number}")
    name = f"habits_{seed}_{number}"
    with tempfile.TemporaryDirectory() as folder:
        module = load(made, Path(folder), name)
        rows = [tuple(_real(module, one) for one in row) for row in made.rows]
        cuts = sorted(dice.sample(range(1, len(rows)), dice.randint(0, min(4, len(rows) - 1))))
        faults = [crash(at="written", epoch=1)] if number % 3 == 0 else []
        merge = {element: how for element, how in MERGES.items() if element in module.Habits.elements()}
        how: dict[str, Any] = {"partitions": dice.randint(1, 7), "settings": made.settings, "faults": faults}
        try:
            run = simulate(module.Habits, rows, epochs=cuts or 1, on_bad_row="skip", **how)
            assert_equals_plain(run, merge=merge)
        except ProgramError as error:
            return "refused", str(error), made
        except AssertionError as error:
            return "mismatch", str(error), made
        except Exception as error:  # noqa: BLE001
            return "crash", "".join(traceback.format_exception(error))[-3000:], made
        finally:
            del sys.modules[name]
    return "same", "", made


def _real(module: Any, value: Any) -> Any:
    """Return an argument, made of the classes of the module where it says so."""
    match value:
        case ("Payment", card, cents):
            return module.Payment(module.Card(card), cents)
    return value


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; 1 if a program ended otherwise than plain Python says."""
    parser = argparse.ArgumentParser(prog="python -m tests.values.manners", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=None)
    options = parser.parse_args(arguments)
    verdicts: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    for number in range(options.count) if options.only is None else [options.only]:
        verdict, found, made = judge(options.seed, number)
        verdicts[verdict] += 1
        shown.update(made.habits)
        if verdict != "same":
            what = f"program {number} of seed {options.seed}: {verdict} {made.habits}"
            sys.stdout.write(f"{what}\n{found}\n{made.rows}\n")
    total = sum(verdicts.values())
    shares = {one.name: round(shown[one.name] / total, 3) for one in HABITS}
    sys.stdout.write(json.dumps({"seed": options.seed, "verdicts": verdicts, "habits": shares}) + "\n")
    return int(verdicts["same"] + verdicts["refused"] < total or verdicts["refused"] * 100 > total)


if __name__ == "__main__":
    sys.exit(main())

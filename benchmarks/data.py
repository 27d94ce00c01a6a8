"""Input of the benchmarks: generated from a seed, written once as Parquet, read by every contestant."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path("out") / "benchmarks"
"""Below the folder in which a benchmark is started: cached input, Spark's log, and what a run leaves while it runs."""

AMOUNT_MAX = 1000
"""Amounts are whole numbers below this, as floats: their sums are exact, so that equality can be asked for."""

WORDS_PER_LINE = 8

ROW_GROUP_ROWS = 125_000

_FIRST_FILE_AT = 1_700_000_000


def keyed_events(events: int, keys: int, files: int, seed: int, out: Path = OUT) -> list[Path]:
    """Return files of (key, amount); keys are uniform, and each occurs if there are enough events."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed)
        every = np.arange(min(keys, events), dtype=np.int64)
        key = rng.permutation(np.concatenate([every, rng.integers(0, keys, events - len(every))]))
        amount = rng.integers(0, AMOUNT_MAX, events).astype(np.float64)
        _write_parts(folder, pa.table({"key": key, "amount": amount}), files)

    return _cached(out / "data" / f"keyed-{events}-events-{keys}-keys-{files}-files-seed-{seed}", write)


def timed_events(events: int, keys: int, seconds: int, seed: int, out: Path = OUT) -> list[Path]:
    """Return a file of (key, time, amount) in order of time; keys and times are uniform, amounts whole numbers."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed)
        time = pa.array(np.sort(rng.integers(0, seconds * 1_000_000, events))).cast(pa.timestamp("us", "UTC"))
        amount = rng.integers(0, AMOUNT_MAX, events)
        _write_parts(folder, pa.table({"key": rng.integers(0, keys, events), "time": time, "amount": amount}), 1)

    return _cached(out / "data" / f"timed-{events}-events-{keys}-keys-{seconds}-seconds-seed-{seed}", write)


def word_lines(lines: int, words: int, files: int, seed: int, out: Path = OUT) -> list[Path]:
    """Return files of one column `line` of eight words, drawn uniformly from `words` different ones."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed)
        vocabulary = np.array([word(number) for number in range(words)])
        drawn = vocabulary[rng.integers(0, words, (lines, WORDS_PER_LINE))]
        _write_parts(folder, pa.table({"line": [" ".join(line) for line in drawn.tolist()]}), files)

    return _cached(out / "data" / f"lines-{lines}-lines-{words}-words-{files}-files-seed-{seed}", write)


def word(number: int) -> str:
    """Return a word of the vocabulary; words sort as their numbers do."""
    return f"word{number:07}"


@contextmanager
def work_folder(name: str, out: Path = OUT) -> Iterator[Path]:
    """Give a run an empty folder for checkpoints and output, on the disk of the input, and remove it afterwards."""
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=out)).absolute()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cached(folder: Path, write: Callable[[Path], None]) -> list[Path]:
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Under its name only when complete: a run that was stopped half-way must not leave half of the input.
        staged = Path(tempfile.mkdtemp(prefix="staged-", dir=folder.parent))
        try:
            write(staged)
            staged.rename(folder)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    return sorted(folder.absolute().glob("*.parquet"))


def _write_parts(folder: Path, table: pa.Table, files: int) -> None:
    ends = [table.num_rows * number // files for number in range(files + 1)]
    for number, (first, last) in enumerate(pairwise(ends)):
        path = folder / f"part-{number:04}.parquet"
        # Several row groups, so that all cores can read one file.
        pq.write_table(table.slice(first, last - first), path, row_group_size=ROW_GROUP_ROWS)
        in_order(path, number)


def in_order(path: Path, number: int) -> None:
    """Date a file by its number: Spark reads the files of a stream in the order of their age."""
    os.utime(path, (_FIRST_FILE_AT + number, _FIRST_FILE_AT + number))

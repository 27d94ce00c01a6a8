"""A state element as a file: Parquet, CSV or JSON lines. The file appears when it is whole."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.checkpoint.read.elements import ElementReader, Entry
from millpond.checkpoint.read.entries import entries
from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.read.plain import as_json, json_text
from millpond.cli.stateshow import Begin
from millpond.engine.statetables import entry_batches, entry_columns
from millpond.errors import SetupError

Writer = Callable[[ElementReader, Iterable[Entry], BinaryIO], int]
"""Writes entries to a file, and tells how many there were."""


def export(history: History, point: Point, element: str, file: Path, begin: Begin) -> int:
    """Write an element to a file, and return the number of rows; the end of the file's name says in which form."""
    writer = _WRITERS.get(file.suffix.lower())
    if writer is None:
        raise SetupError(
            "MP720",
            "the suffix of the file does not name a format",
            expected=", ".join(_WRITERS),
            found=ascii(file.name),
            hint="as in --to state.parquet",
        )
    reader = history.reader(element, point)
    progress = begin(sum(state_file.file.size_bytes for state_file in point.files()))
    with _appearing(file) as out:
        return writer(reader, entries(history, point, element, told=progress), out)


@contextmanager
def _appearing(file: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name when all is written, and is gone if that fails."""
    try:
        descriptor, waiting = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
        # As a plain open() would have made it: mkstemp gives the file to its owner alone.
        mask = os.umask(0)
        os.umask(mask)
        Path(waiting).chmod(0o666 & ~mask)
        Path(waiting).replace(file)
    except OSError as error:
        raise _unwritable(file, error) from None
    finally:
        with suppress(OSError):
            Path(waiting).unlink()


def _unwritable(file: Path, error: OSError) -> SetupError:
    return SetupError(
        "MP718",
        "the output can't be written",
        expected="a file in a folder that exists and may be written to",
        found=f"{file}: {error.strerror or error}",
        hint="choose another file",
    )


def _write_parquet(reader: ElementReader, found: Iterable[Entry], out: BinaryIO) -> int:
    rows = 0
    with pq.ParquetWriter(out, entry_columns(reader)[0]) as writer:
        for batch in entry_batches(reader, found):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_lines(reader: ElementReader, found: Iterable[Entry], out: BinaryIO) -> int:
    rows = 0
    names = _names(reader)
    for entry in found:
        line = {name: as_json(getattr(entry, name)) for name in names}
        out.write(f"{json_text(line)}\n".encode())
        rows += 1
    return rows


def _write_csv(reader: ElementReader, found: Iterable[Entry], out: BinaryIO) -> int:
    rows = 0
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    table = csv.writer(text, lineterminator="\n")
    names = _names(reader)
    table.writerow(names)
    for entry in found:
        table.writerow([_csv_cell(getattr(entry, name)) for name in names])
        rows += 1
    # The file is closed by whoever opened it.
    text.detach()
    return rows


def _csv_cell(value: Any) -> str:
    """Return text as it is, None as nothing, and all else as JSON."""
    plain = as_json(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json_text(plain)


def _names(reader: ElementReader) -> list[str]:
    schema: pa.Schema = entry_columns(reader)[0]
    return list(schema.names)


_WRITERS: dict[str, Writer] = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_lines}

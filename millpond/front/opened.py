"""A checkpoint opened for reading, by `millpond.open`: no Spark, and nothing is read before it is asked for.

>>> import tempfile
>>> from pathlib import Path
>>> from millpond import Counter, Partitioned, Program, entry, open
>>> from millpond.compiler.compile import compile_program
>>> from millpond.engine.simulated import Simulated
>>> class Words(Program):
...     counts = Partitioned(Counter[str])
...
...     @entry
...     def add(self, word: str) -> None:
...         self.counts[word] += 1
>>> folder = Path(tempfile.mkdtemp())
>>> run = Simulated(compile_program(Words), folder, partitions=2)
>>> for word in ("mill", "pond", "mill"):
...     _ = run.epoch([("add", (word,))])
>>> with open(folder / "checkpoint") as checkpoint:
...     counts = checkpoint["counts"]
...     counts.get("mill"), list(counts.scan("n")), counts.at(1).get("mill")
(2, [('pond', 1)], 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from millpond.checkpoint.forking import point_of
from millpond.checkpoint.read.groups import KeyGroups
from millpond.checkpoint.read.history import History, Point, names_of
from millpond.checkpoint.read.typed import TypedReader
from millpond.engine.schema import element_schema
from millpond.errors import ReadError
from millpond.front.tables import Groups, StateTable
from millpond.program.declare import Element
from millpond.program.program import ProgramBase
from millpond.state.expiry import AgedType
from millpond.storage.addresses import shown_url
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage


def open(checkpoint: str | Path, program: type[ProgramBase] | None = None) -> OpenCheckpoint:  # noqa: A001
    """Open a checkpoint for reading, at its newest epoch: `millpond.open("checkpoint")["totals"].get("mill")`.

    `checkpoint` is what the job was given, a folder or an address; the job may run meanwhile, and nothing is changed.
    With its `program`, keys and values are of the program's own classes, and partial state is merged by its `merge`;
    without it, values of classes show as what they are made of (docs/STATE.md). Epochs that are committed later are
    seen by whoever asks for them: `at()` is the newest one then.
    """
    return OpenCheckpoint(open_storage(str(checkpoint)), program)


class OpenCheckpoint:
    """The state after one epoch: a table for each element, by name."""

    def __init__(
        self,
        storage: Storage,
        program: type[ProgramBase] | None = None,
        epoch: int | str | None = None,
        *,
        found: tuple[History, Point] | None = None,
    ) -> None:
        self._storage = storage
        self._program = program
        self._history = found[0] if found else History(storage)
        self._point: Point = found[1] if found else point_of(self._history, epoch)
        self._tables: dict[str, StateTable] = {}
        self._declared: Mapping[str, Element] = {} if program is None else _stored(program)

    @property
    def epoch(self) -> int:
        """The epoch after which this is the state; 0 is the empty state before the first."""
        return self._point.epoch

    @property
    def hash(self) -> str:
        """The hash of the epoch's manifest, which names it among all timelines."""
        return self._point.hash

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs that were kept when this was opened, ascending."""
        return self._history.epochs

    def at(self, epoch: int | str | None = None) -> OpenCheckpoint:
        """Open the state after another epoch: its number, the name of a savepoint, or the newest one now."""
        return OpenCheckpoint(self._storage, self._program, epoch)

    def __getitem__(self, name: str) -> StateTable:
        if name not in self._tables:
            self._tables[name] = self._table(name)
        return self._tables[name]

    def _table(self, name: str) -> StateTable:
        reader = self._history.reader(name, self._point)
        element = self._declared.get(name)
        aged = reader.index in self._point.over_us and reader.schema.value.startswith("tuple[int, ")
        if element is not None:
            declared = element_schema(name, element)
            if declared != reader.schema:
                raise ReadError(
                    "MP830",
                    f"`{name}` is not what the program declares",
                    expected=f"{declared} at epoch {self.epoch}",
                    found=f"{reader.schema}{'' if str(declared) != str(reader.schema) else ', with other fields'}",
                    hint="open it without the program, or at an epoch after its job was started with this program",
                )
            genesis, instances = self._history.genesis, self._point.instances
            reader = TypedReader(reader.index, reader.schema, genesis.key_groups, instances, element)
            aged = isinstance(element.type, AgedType)
        return StateTable(self._history, self._point, reader, self.at, aged=aged, groups=self._entries(reader.index))

    def _entries(self, index: int) -> Groups:
        """Return what reads the entries of an element, by its index: here the files of the checkpoint."""
        return KeyGroups(self._history.storage, self._point, index)

    def __contains__(self, name: object) -> bool:
        return name in names_of(self._point)

    def __iter__(self) -> Iterator[str]:
        return iter(names_of(self._point))

    def __len__(self) -> int:
        return len(names_of(self._point))

    def keys(self) -> list[str]:
        """Return the names of the elements, in the order of their declaration."""
        return names_of(self._point)

    def close(self) -> None:
        """Give back temporary files; tables of this epoch can't be read any more."""
        for table in self._tables.values():
            table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{shown_url(self._storage.url)} at epoch {self.epoch}: {', '.join(self) or 'no state'}>"


def _stored(program: type[ProgramBase]) -> dict[str, Element]:
    """Return the elements of a program as its checkpoint has them."""
    given: object = program
    if not (isinstance(given, type) and issubclass(given, ProgramBase)):
        raise ReadError(
            "MP831",
            "this is no program to read state by",
            expected="the class, as in millpond.open(checkpoint, Words)",
            found=repr(program)[:80],
        )
    return {
        name: stored
        for element in program.elements().values()
        for name, stored in element.in_program(program).stored().items()
    }

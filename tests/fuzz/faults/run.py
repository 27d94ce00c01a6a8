"""One run with faults, from its seed: batches are offered until all are committed, whatever happens on the way."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from millpond.checkpoint.records.manifest import Manifest
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.compiler import CompiledProgram, compile_program
from millpond.engine.plan import Level
from millpond.engine.schema import element_schemas
from millpond.engine.sequential import Sequential
from millpond.errors import Aborted, MillpondError, StorageError
from millpond.program import ProgramBase
from millpond.program.durability import BoundedLoss
from millpond.state.local.localstore import LocalStore
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage
from millpond.testing.disk import ProcessDied
from tests.fuzz.dice import Dice, derive
from tests.fuzz.faults.drivers import FaultyDriver, World
from tests.fuzz.faults.programs import Ledger, Wander, ledger_rows, wander_rows
from tests.fuzz.faults.sites import Sites
from tests.fuzz.loading import temporary_folder
from tests.fuzz.oracle import shown
from tests.fuzz.rows import Row
from tests.fuzz.transactions.truth import called
from tests.fuzz.transactions.worlds import WORLDS
from tests.fuzz.transactions.worlds.bank import Bank

KEY_GROUPS: Final = 12
INSTANCES: Final = 3
OVERTAKEN: Final = frozenset({"MP406", "MP408"})
"""What a driver is told that others have left behind: at its commit, or when it looks again after an error."""
PARTITIONS: Final = (1, 2, 3, 5)
BATCHES_MAX: Final = 6
DRIVERS_MAX: Final = 3
TURNS: Final = 25
"""So many times something is tried while there are faults; then they stop."""
CALM_TURNS_MAX: Final = 3 * BATCHES_MAX
"""Without faults a driver commits a batch at each turn, unless it is one that others have overtaken."""

UNSAVED: Final = "MP498"
"""What a driver is told whose state with bounded loss can't be saved; it does nothing more."""

EXPECTED: Final = frozenset({"MP307", "MP308", "MP309", "MP409", "MP426", UNSAVED}) | OVERTAKEN
"""What faults may be told as: the disk, another driver, a job that was aborted or tidied up in vain too often. Never as
damage.
"""

STORAGES: Final = ("files", "files", "perkey", "log", "spread", "elements")

LOSSY: Final = BoundedLoss(events=2, within=timedelta(seconds=1_000_000))

_MISSING: Final = "MP304"


@dataclass(slots=True)
class Ended:
    """How a run ended: what is wrong, if anything, and what happened on the way."""

    wrong: str = ""
    fired: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    deaths: int = 0
    drivers: int = 0
    program: str = ""
    storage: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """What is run, and what it must come to after each batch; `told` are the rows that have a reply or were refused."""

    compiled: CompiledProgram
    batches: tuple[tuple[Row, ...], ...]
    states: tuple[dict[bytes, bytes], ...]
    told: dict[int, tuple[str, str]]


def run_seed(seed: int) -> Ended:
    """Run one seed; equal seeds do the same."""
    dice = Dice(derive(seed, "script"))
    ended = Ended()
    script = _script(dice, ended)
    levels: dict[str, tuple[Level | BoundedLoss, ...]] = {
        "ledger": (Level.EXACTLY_ONCE, Level.EXACTLY_ONCE, Level.REPLAY, LOSSY),
        "wander": (Level.EXACTLY_ONCE, Level.REPLAY),
        "bank": (Level.EXACTLY_ONCE, LOSSY),
    }
    with temporary_folder() as folder:
        ended.storage = dice.one(STORAGES)
        level = dice.one(levels[ended.program])
        ended.level = "bounded_loss" if isinstance(level, BoundedLoss) else level.value
        elements = [element.name for element in element_schemas(script.compiled)]
        place = Place(folder, _address(ended.storage, folder / "checkpoint", elements), level)
        return _Run(script, place, seed, ended).run()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run keeps its state, and how surely."""

    folder: Path
    url: str
    level: Level | BoundedLoss

    def open(self) -> Storage:
        """The checkpoint with what is near, as somebody sees it who has no faults."""
        kept = open_storage(self.url)
        return kept if self.level is Level.EXACTLY_ONCE else UnsyncedStorage(kept, self.folder / "near")


def _address(kind: str, root: Path, elements: Sequence[str]) -> str:
    if kind == "elements":
        others = ",".join(elements[1:])
        return f"elements://{root}/one|{elements[0]}=log://{root}/two" + (f"|{others}={root}/three" if others else "")
    if kind == "spread":
        return f"spread://2*{root}/one|{root}/two|log://{root}/three"
    return str(root) if kind == "files" else f"{kind}://{root}"


def _script(dice: Dice, ended: Ended) -> Script:
    kind = dice.one(("ledger", "ledger", "wander", "bank"))
    ended.program = kind
    program: type[ProgramBase]
    match kind:
        case "ledger":
            program, rows = Ledger, ledger_rows(dice, dice.between(5, 30))
        case "wander":
            program, rows = Wander, wander_rows(dice, dice.between(3, 12))
        case _:
            program, rows = Bank, WORLDS["bank"].make_rows(dice.between(0, 2**32), dice.between(5, 25))
    compiled = _compiled(program)
    kept = rows if compiled.graph.relaxed else _that_end_well(program, rows)
    ends = sorted({len(kept), *(dice.between(0, len(kept)) for _ in range(BATCHES_MAX - 1))} - {0})
    batches = tuple(tuple(kept[start:end]) for start, end in pairwise((0, *ends)))
    return _expected(program, compiled, batches)


@cache
def _compiled(program: type[ProgramBase]) -> CompiledProgram:
    return compile_program(program)


def _that_end_well(program: type[ProgramBase], rows: Sequence[Row]) -> list[Row]:
    """Rows without those that raise: what becomes of these is a matter of policies, which others test."""
    kept: list[Row] = []
    plain = program()
    for row in rows:
        try:
            called(plain, row)
        except Aborted:
            pass
        except Exception:  # noqa: BLE001
            plain = program()
            for before in kept:
                try:
                    called(plain, before)
                except Aborted:
                    continue
            continue
        kept.append(row)
    return kept


def _expected(program: type[ProgramBase], compiled: CompiledProgram, batches: tuple[tuple[Row, ...], ...]) -> Script:
    """What plain Python says; the reference interpreter of steps for relaxed programs, and for the bytes of state."""
    reference = Sequential(compiled, KEY_GROUPS, INSTANCES)
    plain, points = program(), program.entries()
    states, told = [reference.state()], dict[int, tuple[str, str]]()
    number = 0
    for batch in batches:
        replies = reference.epoch(batch)
        for row, reply in zip(batch, replies, strict=True):
            said = reply
            if not compiled.graph.relaxed:
                try:
                    said = called(plain, row)
                except Aborted as refused:
                    said = refused
            if isinstance(said, Aborted):
                told[number] = (repr(None), repr(said.reason))
            elif points[row[0]].replies:
                told[number] = (shown(said, points[row[0]].returns), repr(None))
            number += 1
        states.append(reference.state())
    return Script(compiled, batches, tuple(states), told)


class _Run:
    def __init__(self, script: Script, place: Place, seed: int, ended: Ended) -> None:
        self._script = script
        self._place = place
        self._dice = Dice(derive(seed, "run"))
        self._sites = Sites(derive(seed, "sites"))
        self._world = World()
        self._ended = ended
        self._starts = [sum(map(len, script.batches[:n])) for n in range(len(script.batches) + 1)]
        self._drivers: list[FaultyDriver] = []

    def run(self) -> Ended:
        """Try until the faults stop, then to the end."""
        ended = self._ended
        for turn in range(TURNS + CALM_TURNS_MAX):
            if turn == TURNS:
                self._sites.calm = True
            ended.wrong = self._turn() or self._wrong_state()
            if ended.wrong or (self._sites.calm and self._committed() == len(self._script.batches)):
                break
        ended.fired = self._sites.fired
        # The last batch may be committed by one that died before it was published: the next start does that.
        self._drivers.clear()
        ended.wrong = ended.wrong or self._turn() or self._wrong_end()
        return ended

    def _turn(self) -> str:
        """One try of one driver; what is wrong with how it failed, if anything is."""
        driver = None
        try:
            driver = self._driver()
            if driver.fed < self._starts[-1]:
                driver.attempt(self._script.batches[self._starts.index(driver.fed)])
        except ProcessDied:
            self._ended.deaths += 1
            self._forget(driver)
        except MillpondError as error:
            self._ended.codes[error.code] += 1
            # Whoever started it may take it for dead, or let it try again. What a relaxed epoch left is for a new one.
            gives_up = self._script.compiled.graph.relaxed or error.code == UNSAVED
            if self._sites.calm or gives_up or self._dice.chance(0.5):
                self._forget(driver)
            if error.code not in EXPECTED:
                return f"a fault was told as {error}"
            if self._sites.calm and error.code not in OVERTAKEN:
                return f"without faults there is an error: {error}"
        return ""

    def _forget(self, driver: FaultyDriver | None) -> None:
        self._drivers = [other for other in self._drivers if other is not driver]

    def _driver(self) -> FaultyDriver:
        """The driver whose turn it is: one of those that are there, or a new one that takes them for dead."""
        if self._drivers and self._dice.chance(0.8):
            return self._dice.one(self._drivers)
        if self._dice.chance(0.15):
            self._lose_stores()
        if self._place.level is Level.REPLAY and self._dice.chance(0.2):
            self._lose_machine()
        driver = FaultyDriver(
            self._script.compiled,
            self._place.folder,
            self._sites,
            self._world,
            partitions=self._dice.one(PARTITIONS),
            key_groups=KEY_GROUPS,
            instances=INSTANCES,
            steps_max=self._dice.between(1, 4),
            durability=self._place.level,
            checkpoint=self._place.url,
        )
        assert driver.loss is None, "no machine was lost"
        self._ended.drivers += 1
        self._drivers = [*self._drivers[1 - DRIVERS_MAX :], driver]
        return driver

    def _lose_stores(self) -> None:
        """What workers keep on their hosts is gone."""
        for local in self._place.folder.glob("local-*"):
            LocalStore.close_below(local)
            shutil.rmtree(local)

    def _lose_machine(self) -> None:
        """All drivers die, and what is near with them."""
        self._drivers.clear()
        self._lose_stores()
        shutil.rmtree(self._place.folder / "near", ignore_errors=True)

    def _head(self) -> Manifest | None:
        """The last committed epoch, seen by somebody without faults."""
        storage = self._place.open()
        genesis = read_genesis(storage)
        found = None if genesis is None else last_manifest(storage, genesis[1])
        return None if found is None else found[0]

    def _committed(self) -> int | None:
        """How many batches are committed; None if the last one is not finished."""
        head = self._head()
        if head is None:
            return 0
        return None if head.pending else head.offer.number + 1

    def _wrong_state(self) -> str:
        done = self._committed()
        if done is None:
            return ""
        try:
            state = read_state(self._place.open())
        except StorageError as error:
            if error.code == _MISSING and self._place.level is Level.REPLAY:
                # It is computed again by the next start.
                return ""
            raise
        return "" if state == self._script.states[done] else f"after {done} batches the state is not that of {done}"

    def _wrong_end(self) -> str:
        if self._committed() != len(self._script.batches):
            return f"{self._committed()} of {len(self._script.batches)} batches when the faults had stopped for long"
        if self._world.changed:
            return f"rows were published twice, and differently: {self._world.changed}"
        if self._world.told != self._script.told:
            keys = self._world.told.keys() ^ self._script.told.keys() or [
                key for key, said in self._script.told.items() if self._world.told[key] != said
            ]
            return f"replies that are missing, too many or wrong: {sorted(keys)}"
        return ""

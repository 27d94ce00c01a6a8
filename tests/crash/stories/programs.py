"""Stories of programs on the simulated runtime, in which plain Python says what must come of the rows."""

from __future__ import annotations

import random
import shutil
from collections import Counter as Counted
from datetime import timedelta

import pyarrow.parquet as pq

from millpond import BoundedLoss, Counter, Keep, Map, Partial, Partitioned, Program, entry, parquet
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import GENESIS_NAME, decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.engine.local_state.openstate import Consolidation
from millpond.engine.plan import Level
from millpond.engine.simulated import Simulated
from millpond.state.local.storekey import PREFIX_BYTES, element_of
from millpond.storage.composed.unsynced import UnsyncedStorage
from tests.crash.stories.place import redraw, some_keep
from tests.sizes import compile_once

KEY_GROUPS = 12
EPOCH_ROWS = 6
NAMES = ("a", "b", "ä", "cd", "e", "z" * 600)


class Accounts(Program):
    """Balances, which replies tell, and how often each was asked for, in diverging copies."""

    balances = Partitioned(Map[str, int])
    asked = Partial(Counter[str], merge=sum, on_scale_out="split")

    @entry
    def add(self, name: str, amount: int) -> int:
        balance = self.balances.get(name, 0) + amount
        if balance:
            self.balances[name] = balance
        elif name in self.balances:
            del self.balances[name]
        self.asked[name] += 1
        return balance


class Visits(Program):
    """Every visit counts once in an element that is exact, and once in one with bounded loss."""

    exact = Partitioned(Counter[str])
    hits = Partitioned(Counter[str], durability=BoundedLoss(events=3, within=timedelta(seconds=1_000_000)))

    @entry
    def visit(self, page: str) -> None:
        self.exact[page] += 1
        self.hits[page] += 1


COMPILED = {program: compile_once(program) for program in (Accounts, Visits)}


def rows_of(program, count):
    rng = random.Random(3)
    if program is Visits:
        return [("visit", (rng.choice(NAMES),)) for _ in range(count)]
    return [("add", (rng.choice(NAMES), rng.randrange(-2, 4))) for _ in range(count)]


def entries(program, state, index):
    """The entries of an element, those of several instances added up."""
    element = list(program.elements().values())[index]
    found = Counted()
    for key, value in state.items():
        if element_of(key) == index:
            found[element.type.keys.decode(key[PREFIX_BYTES:])] += element.type.values.decode(value)
    return dict(found)


def lose_local(place, rng, share):
    for local in sorted(place.folder.glob("local-*")):
        if rng.random() < share:
            shutil.rmtree(local)


def check_sound(place):
    """What is not only near is whole, if there is a checkpoint yet.

    Files of a first epoch that was never committed look like those of one whose manifest is lost (MP457).
    """
    storage = place.open()
    if storage.contains(GENESIS_NAME):
        codes = {problem.error.code for problem in verify(storage, everything=True).problems}
        assert codes <= (set() if storage.list("manifests") else {"MP457"})


class Running:
    """A program with replies in files: other partitions, other instances and owners at any time."""

    ROWS = rows_of(Accounts, 96)
    program = Accounts
    level = Level.EXACTLY_ONCE

    def prepare(self, place):
        pass

    def start(self, place, rng):
        redraw(rng)
        return Simulated(
            COMPILED[self.program],
            place.folder,
            rng.choice((1, 2, 3)),
            KEY_GROUPS,
            1 + place.told("fed") // 24 % 3,
            sinks={"add": parquet(place.folder / "out")},
            durability=self.level,
            keep=some_keep(rng),
            checkpoint=place.url(),
        )

    def feed(self, place, run, until):
        while run.fed < until:
            run.epoch(self.ROWS[run.fed : run.fed + EPOCH_ROWS])
            place.tell("fed", run.fed)

    def go_on(self, place, rng):
        for end in (48, len(self.ROWS)):
            lose_local(place, rng, 0.3)
            run = self.start(place, rng)
            for count in (3, 2, 1):
                self._resize(run, count)
                self.feed(place, run, min(end, run.fed + 2 * EPOCH_ROWS))
                self._bring_up(run)
            self.feed(place, run, end)

    def _bring_up(self, run):
        consolidation = Consolidation(run.storage, run._plan.local_root)
        consolidation.start(run._checkpoint.parent, run.layout)
        consolidation.close()

    def _resize(self, run, count):
        owners = [0] * run.layout.key_groups
        for number, atom in enumerate(run.layout.atoms):
            for group in atom:
                owners[group] = number % count
        run.assign(owners, count)

    def state(self, place):
        return read_state(place.open())

    def check(self, place):
        """The state is that of all rows up to some epoch's end, and no row that was committed is gone."""
        balances = entries(Accounts, self.state(place), 0)
        plain = Accounts()
        found = [balances == {}] if not place.told("fed") else []
        for number, (_, arguments) in enumerate(self.ROWS, 1):
            plain.add(*arguments)
            if number % EPOCH_ROWS == 0 and number >= place.told("fed"):
                found.append(balances == dict(plain.balances.items()))
        assert any(found)

    def check_end(self, place):
        plain = Accounts()
        wanted = {number: plain.add(*arguments) for number, (_, arguments) in enumerate(self.ROWS)}
        state = self.state(place)
        assert entries(Accounts, state, 0) == dict(plain.balances.items())
        assert entries(Accounts, state, 1) == dict(plain.asked.items())
        files = sorted((place.folder / "out").glob("*.parquet"))
        replies = [row for path in files for row in pq.read_table(path).to_pylist()]
        assert sorted(row["row"] for row in replies) == sorted(wanted), "a reply twice, or none"
        assert {row["row"]: row["reply"] for row in replies} == wanted
        assert list((place.folder / "out" / "_staged").iterdir()) == []
        assert verify(place.open(), everything=True).problems == []


class Replaying(Running):
    """What epochs changed is near and gets lost with its machine; it is computed again."""

    ROWS = rows_of(Accounts, 72)
    level = Level.REPLAY

    def go_on(self, place, rng):
        for end in (24, 48, 72):
            lose_local(place, rng, 0.7)
            if rng.random() < 0.8:
                shutil.rmtree(place.folder / "near", ignore_errors=True)
            self.feed(place, self.start(place, rng), end)
        # What is only near is not for readers of the checkpoint.
        shutil.rmtree(place.folder / "near", ignore_errors=True)
        self.level = Level.EXACTLY_ONCE
        self.start(place, rng)

    def check(self, place):
        check_sound(place)

    def state(self, place):
        return read_state(UnsyncedStorage(place.open(), place.folder / "near"))


class Again(Simulated):
    """A job that runs twice, and what the first try left near is torn meanwhile, as by a machine that died."""

    def compute_rows(self, rows, request):
        near = self.storage._folder
        before = set(near.rglob("*"))
        super().compute_rows(rows, request)
        for path in sorted(set(near.rglob("*")) - before):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(path.read_bytes()[:9])
        return super().compute_rows(rows, request)


class LosingSome(Running):
    """State with bounded loss: saved behind the epochs, and now and then what is near is lost, and told."""

    ROWS = rows_of(Visits, 72)
    program = Visits

    def start(self, place, rng):
        redraw(rng)
        return Again(
            COMPILED[Visits],
            place.folder,
            rng.choice((1, 2, 3)),
            KEY_GROUPS,
            keep=Keep.all(),
            checkpoint=place.url(),
        )

    def go_on(self, place, rng):
        for end, loses in ((24, False), (36, False), (54, True), (72, True)):
            if loses:
                self._lose(place, rng)
            self.feed(place, self.start(place, rng), end)

    def _lose(self, place, rng):
        for path in sorted((place.folder / "near").rglob("*")):
            if path.is_file() and rng.random() < 0.8:
                path.chmod(0o600)
                path.write_bytes(path.read_bytes()[: rng.randrange(30)])
        lose_local(place, rng, 0.5)

    def state(self, place):
        return read_state(UnsyncedStorage(place.open(), place.folder / "near"))

    def check(self, place):
        check_sound(place)

    def check_end(self, place):
        state = self.state(place)
        true = Counted(arguments[0] for _, arguments in self.ROWS)
        assert entries(Visits, state, 0) == dict(true)
        hits = entries(Visits, state, 1)
        assert all(hits.get(page, 0) <= visits for page, visits in true.items())
        assert sum(true.values()) - sum(hits.values()) <= self._told(place)

    def _told(self, place):
        """The updates that manifests say are lost at most, over the life of the checkpoint."""
        storage = place.open()
        own = [decode_manifest(storage.get(name), name).deltas[-1] for name in storage.list("manifests")]
        return sum(delta.loss.updates for delta in own if delta.loss is not None)

"""A checkpoint against a dict per epoch: commits, aborts, deaths at any call, zombies, snapshots, restarts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork, JobAborted
from millpond.checkpoint.records.deltas import within, write_changes
from millpond.checkpoint.records.manifest import decode_manifest, manifest_hash
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_changes, read_state, restore_files
from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.snapshots.compaction import compact
from millpond.errors import EpochError
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.perkey import PerKeyStorage
from millpond.storage.door import Door
from millpond.storage.frame import FrameKind
from tests.crash.model_disk import PowerCutError

KEY_GROUPS = 8
PARTITIONS = (1, 2, 3, 4, 7)
BACKENDS = {
    "files": FileStorage,
    "perkey": PerKeyStorage,
    "log": lambda root, door=None: LogStorage(root, door, file_bytes_max=1500, index_records_min=5),
}

keys = st.builds(store_key, st.integers(0, 1), st.integers(0, KEY_GROUPS - 1), st.sampled_from([b"", b"x", b"yy"]))
changed = st.dictionaries(keys, st.none() | st.binary(max_size=12), max_size=6)


class DyingDoor(Door):
    """The real disk, until the nth call that changes something: there the process dies."""

    def __init__(self):
        self.left = None

    def passes(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise PowerCutError


def _dying(call):
    real = getattr(Door, call)

    def method(self, *args, **options):
        self.passes()
        return real(self, *args, **options)

    return method


for _call in ("create", "write", "sync", "link", "rename", "unlink", "mkdir", "sync_folder", "write_at", "sync_data"):
    setattr(DyingDoor, _call, _dying(_call))


class CheckpointMachine(RuleBasedStateMachine):
    """Whatever happens, every manifest that is there reads as the dict of its epoch."""

    backend = "files"

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millpond-machine-"))
        self.states = [{}]
        self.zombies = []
        self.restart()

    def teardown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def storage(self, door=None):
        return BACKENDS[self.backend](self.folder / "checkpoint", door)

    @rule()
    def restart(self):
        self.door = DyingDoor()
        self.current = self.storage(self.door)
        self.checkpoint = Checkpoint.open(self.current, (), KEY_GROUPS)

    def work(self, storage, changes, partitions):
        """The changes of an epoch, those of even partitions inline and those of the others in files."""
        layout = Layout(KEY_GROUPS, partitions, 1, aligned=False)
        parts = []
        for partition in range(partitions):
            own = sorted(key for key in changes if layout.owner_of(group_of(key)) == partition)
            values = [changes[key] for key in own]
            if own and partition % 2:
                file = write_changes(storage, FrameKind.DELTA, Changes(own, values), mark="test")
                parts.append(Changed(files=(file,)))
            elif own:
                parts.append(Changed(Changes(own, values)))
        return EpochWork(tuple(parts), (), {})

    def run(self, checkpoint, storage, changes, partitions=1, aborts=0):
        tries = [0]

        def compute(_parent):
            work = self.work(storage, changes, partitions)
            tries[0] += 1
            if tries[0] <= aborts:
                raise JobAborted("MP434", "given up")
            return work

        offer = Batch("q", checkpoint.epoch)
        checkpoint.run_epoch(offer, compute, lambda _: None, partitions=partitions, retries=2)

    def after(self, changes):
        state = {**self.states[-1], **changes}
        return {key: value for key, value in state.items() if value is not None}

    @rule(changes=changed, partitions=st.sampled_from(PARTITIONS), aborts=st.integers(0, 2))
    def commit(self, changes, partitions, aborts):
        self.run(self.checkpoint, self.current, changes, partitions, aborts)
        self.states.append(self.after(changes))

    @rule(changes=changed)
    def give_up(self, changes):
        with pytest.raises(EpochError) as caught:
            self.run(self.checkpoint, self.current, changes, aborts=3)
        assert caught.value.code == "MP409"

    @rule(changes=changed, partitions=st.sampled_from(PARTITIONS), calls=st.integers(0, 40))
    def die_at_some_call(self, changes, partitions, calls):
        before = len(self.states)
        self.door.left = calls
        try:
            self.run(self.checkpoint, self.current, changes, partitions)
            committed = True
        except PowerCutError:
            committed = len(self.storage().list("manifests")) == before
        if committed:
            self.states.append(self.after(changes))
        self.restart()

    @rule()
    def stay_behind(self):
        """This driver is taken for dead, and another one starts."""
        self.zombies = [*self.zombies[-2:], (self.checkpoint, self.current, len(self.states))]
        self.restart()

    @precondition(lambda self: self.zombies)
    @rule(changes=changed, which=st.integers(0, 2))
    def wake_up(self, changes, which):
        checkpoint, storage, epochs = self.zombies.pop(which % len(self.zombies))
        if epochs == len(self.states):
            self.run(checkpoint, storage, changes)
            self.states.append(self.after(changes))
            self.restart()
            return
        with pytest.raises(EpochError) as caught:
            self.run(checkpoint, storage, changes)
        assert caught.value.code == "MP408"

    @precondition(lambda self: len(self.states) > 1)
    @rule(which=st.integers(0, 9))
    def merge_a_snapshot(self, which):
        """Of any epoch, as a process would that started long ago."""
        name = f"manifests/{1 + which % (len(self.states) - 1):010}"
        data = self.storage().get(name)
        manifest = decode_manifest(data, name)
        compact(self.storage(), manifest, manifest_hash(data), KEY_GROUPS)

    @invariant()
    def the_head_reads_as_its_dict(self):
        if hasattr(self, "states"):
            storage = self.storage()
            assert len(storage.list("manifests")) == len(self.states) - 1
            assert read_state(storage) == self.states[-1]

    @rule()
    def every_epoch_reads_as_its_dict(self):
        storage = self.storage()
        for epoch, state in enumerate(self.states[1:], start=1):
            name = f"manifests/{epoch:010}"
            assert read_state(storage, decode_manifest(storage.get(name), name)) == state, epoch

    @precondition(lambda self: len(self.states) > 1)
    @rule(partitions=st.sampled_from(PARTITIONS))
    def any_number_of_partitions_restores_each_key_once(self, partitions):
        storage, layout = self.storage(), Layout(KEY_GROUPS, partitions, 1, aligned=False)
        restored = {}
        for partition in range(partitions):
            groups = layout.groups_of(partition)
            own = {}
            for file in restore_files(self.checkpoint.head, groups[0], groups[-1]):
                own.update(within(read_changes(storage, file), groups[0], groups[-1]).pairs())
            own = {key: value for key, value in own.items() if value is not None}
            assert not restored.keys() & own.keys()
            restored |= own
        assert restored == self.states[-1]


def machine_of(name, examples, steps):
    made = type(f"{name.title()}Machine", (CheckpointMachine,), {"backend": name})
    case = made.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    return case


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)


TestFiles = machine_of("files", 8, 20)
TestLog = pytest.mark.slow(machine_of("log", 30, 25))
TestPerKey = pytest.mark.slow(machine_of("perkey", 20, 25))
TestFilesLong = pytest.mark.campaign(machine_of("files", 1500, 50))
TestLogLong = pytest.mark.campaign(machine_of("log", 1500, 50))

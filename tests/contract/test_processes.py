"""What holds when several processes use one storage, and when they are killed in the middle of what they do."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.baselines.perkey import FaithfulPerKeyStorage
from millpond.errors import StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.perkey import PerKeyStorage
from millpond.storage.contract import PutOutcome
from millpond.storage.open import open_storage
from tests.contract.conftest import BACKENDS, redis_url
from tests.contract.servers import RedisServer, child_environment
from tests.contract.writer import content, name_of
from tests.programs.keyed import fresh_seed

pytestmark = pytest.mark.campaign

WRITERS = 4
SMALL_BYTES, KILLED_BYTES = 200, 40_000


class Writer:
    """A process of `writer.py`; tells what was acknowledged to it."""

    def __init__(self, backend, storage, how, writer, count, size):
        self.process = subprocess.Popen(
            [*(sys.executable, "-m", "tests.contract.writer"), storage.url, how, *map(str, (writer, count, size))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(MILLPOND_TEST_MODULES=backend.modules),
        )

    def start(self):
        assert self.process.stdout.readline() == "ready\n"
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self):
        """Wait, and return the lines that it said."""
        with self.process:
            lines = self.process.stdout.read().splitlines()
        return [tuple(line.split()) for line in lines]


SHARED = [name for name, flags in BACKENDS.items() if flags.get("processes", True)]
KILLED = [name for name in SHARED if BACKENDS[name].get("kept_on_disk", True)]
over_shared = pytest.mark.parametrize("backend", SHARED, indirect=True)


def race(backend, storage, how, count):
    writers = [Writer(backend, storage, how, number, count, SMALL_BYTES) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    said = [writer.finish() for writer in writers]
    assert [lines[-1] for lines in said] == [("done",)] * WRITERS
    return said


@over_shared
def test_of_several_processes_exactly_one_wins_each_name(backend):
    count = 60 if backend.fast else 12
    storage = backend.open()
    said = race(backend, storage, "race", count)
    for number in range(count):
        name = name_of("race", 0, number)
        winners = [writer for writer, lines in enumerate(said) if ("won", name) in lines]
        assert len(winners) == 1, name
        assert storage.get(name) == content(f"{name} by {winners[0]}", SMALL_BYTES)
    assert len(storage.list("manifests")) == count


@over_shared
def test_several_processes_that_write_and_delete_lose_nothing_of_each_other(backend):
    count = 60 if backend.fast else 8
    storage = backend.open()
    storage.put("deltas/before", b"x")
    race(backend, storage, "churn", count)
    kept = {name_of("churn", writer, number): writer for writer in range(WRITERS) for number in range(0, count, 2)}
    for opened in (storage, backend.open()):
        assert opened.list("") == sorted([*kept, "deltas/before"])
        for name, writer in kept.items():
            assert opened.get(name) == content(f"{name} by {writer}", SMALL_BYTES)


@pytest.mark.parametrize("backend", KILLED, indirect=True)
def test_a_killed_writer_loses_nothing_that_was_acknowledged_and_leaves_nothing_torn(backend):
    """kill -9 at random times, round after round on the same storage, with a second writer at work."""
    rounds, seed = (4 if backend.fast else 2), fresh_seed()
    chance = random.Random(seed)
    storage = backend.open()
    acknowledged = {}
    for turn in range(rounds):
        writers = [Writer(backend, storage, "own", 10 * turn + number, 100_000, KILLED_BYTES) for number in range(2)]
        for writer in writers:
            writer.start()
        time.sleep(chance.uniform(0.02, 0.4) + (0 if backend.fast else 0.5))
        for number, writer in enumerate(writers):
            writer.process.send_signal(signal.SIGKILL)
            for outcome, name in filter(lambda words: len(words) == 2, writer.finish()):
                assert outcome == "won", (seed, name)
                acknowledged[name] = 10 * turn + number
        for opened in (storage, backend.open()):
            names = opened.list("deltas")
            assert set(acknowledged) <= set(names), seed
            for name in names:
                writer = int(name.split("/")[1].split("-")[0])
                assert opened.get(name) == content(f"{name} by {writer}", KILLED_BYTES), (seed, name)
    assert acknowledged
    assert storage.put("manifests/0000000001", b"goes on") is PutOutcome.WON


def dies_in_the_middle_of_a_put(storage):
    """A process that the system ends when a file grows above 4 KB: in the middle of the write of a put."""
    script = (
        "import resource, signal, sys; from millpond.storage.backends.files import FileStorage\n"
        "from millpond.storage.backends.log.log import LogStorage\n"
        "from benchmarks.baselines.perkey import FaithfulPerKeyStorage\n"
        "from millpond.storage.backends.perkey import PerKeyStorage\n"
        "storage = globals()[sys.argv[1]](sys.argv[2])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "storage.put('deltas/name', b'x' * 100_000)\n"
    )
    command = [sys.executable, "-c", script, type(storage).__name__, str(storage._root)]
    done = subprocess.run(command, env=child_environment(), check=False)
    assert done.returncode == -signal.SIGXFSZ


def test_what_s4_does_leaves_half_a_value_when_its_writer_dies(tmp_path):
    """Why the faithful variant can't hold a checkpoint: half a value stands under the name for ever."""
    storage = FaithfulPerKeyStorage(tmp_path)
    dies_in_the_middle_of_a_put(storage)
    assert storage.get("deltas/name") == b"x" * 4096
    assert storage.put("deltas/name", b"x" * 100_000) is PutOutcome.PRESENT
    with pytest.raises(StorageError) as caught:
        open_storage(storage.url)
    assert caught.value.code == "MP336"


@pytest.mark.parametrize("kind", [FileStorage, LogStorage, PerKeyStorage])
def test_all_others_leave_nothing_when_their_writer_dies(tmp_path, kind):
    storage = kind(tmp_path)
    storage.put("deltas/before", b"y")
    dies_in_the_middle_of_a_put(storage)
    for opened in (storage, kind(tmp_path)):
        assert opened.list("") == ["deltas/before"]
    assert storage.put("deltas/name", b"x" * 100_000) is PutOutcome.WON
    assert kind(tmp_path).get("deltas/name") == b"x" * 100_000


def test_a_redis_server_that_is_killed_has_what_it_acknowledged(tmp_path):
    server = RedisServer(tmp_path)
    try:
        storage = open_storage(redis_url(server))
        for number in range(50):
            storage.put(f"deltas/{number}", b"%d" % number)
        server.kill()
        with pytest.raises(StorageError) as caught:
            storage.put("deltas/while-it-is-away", b"x")
        assert caught.value.code == "MP331"
        server.start()
        assert {name: storage.get(name) for name in storage.list("deltas")} == {
            f"deltas/{number}": b"%d" % number for number in range(50)
        }
        assert storage.put("deltas/again", b"x") is PutOutcome.WON
        storage.close()
    finally:
        server.stop()


def test_memory_is_refused_by_another_process(tmp_path):
    storage = open_storage("memory://trial")
    assert open_storage(storage.url) is storage
    refused = refusal_of(storage.url)
    assert "MP337" in refused


def test_a_database_that_one_process_owns_is_refused_by_another(tmp_path):
    owner = open_storage(f"rocksdb://{tmp_path}/db?owner=one")
    owner.put("name", b"x")
    for url in (owner.url, f"rocksdb://{tmp_path}/db"):
        refused = refusal_of(url)
        assert "MP333" in refused
    owner.close()
    assert refusal_of(f"rocksdb://{tmp_path}/db") == "None\n"
    assert owner.get("name") == b"x"
    owner.close()


def test_an_owner_that_was_killed_is_no_longer_one(tmp_path):
    url = f"rocksdb://{tmp_path}/db"
    script = (
        "import os, signal; from millpond.storage.open import open_storage\n"
        f"open_storage({url + '?owner=one'!r}).put('name', b'x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script], env=child_environment(), check=False)
    assert open_storage(url).get("name") == b"x"


def refusal_of(url):
    """What another process gets if it puts something there: an error, or None."""
    script = (
        "from millpond.storage.open import open_storage; from millpond.errors import StorageError\n"
        "error = None\n"
        f"try: open_storage({url!r}).put('another', b'x')\n"
        "except StorageError as caught: error = caught\n"
        "print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=child_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout

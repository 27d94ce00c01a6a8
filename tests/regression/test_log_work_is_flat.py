"""What a task does to open a log does not grow with the epochs behind it: counted in bytes and records."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.storage.backends.log import log, logtail
from millpond.storage.backends.log.log import INDEX_RECORDS_MIN, LogStorage
from millpond.storage.door import Door, through
from millpond.storage.open import open_storage
from tests.children import in_child

EPOCHS = 500
PUTS_PER_EPOCH = 4


class CountingDoor(Door):
    def __init__(self):
        self.bytes = 0

    def read_at(self, descriptor, size, offset):
        data = super().read_at(descriptor, size, offset)
        self.bytes += len(data)
        return data

    def read(self, path):
        data = super().read(path)
        self.bytes += len(data)
        return data

    def sync(self, descriptor):
        pass

    def sync_data(self, descriptor):
        pass

    def sync_folder(self, path):
        pass


@pytest.fixture
def replayed(monkeypatch):
    """How many records were applied so far."""
    count = [0]
    apply = logtail.LogTail._apply

    def counted(self, record):
        count[0] += 1
        apply(self, record)

    monkeypatch.setattr(logtail.LogTail, "_apply", counted)
    return count


def run(address, task):
    """Epochs of a driver that puts, each followed by a task; what each task cost is returned."""
    driver = LogStorage(address.removeprefix("log://"))
    costs = []
    for epoch in range(1, EPOCHS + 1):
        for number in range(PUTS_PER_EPOCH - 1):
            driver.put(f"deltas/{epoch * 10 + number:040x}", b"x" * 200)
        driver.put(f"manifests/{epoch:010}", b"m" * 2000)
        costs.append(task(epoch))
    return costs


def test_a_process_that_opens_a_log_again_reads_only_what_was_appended_since(tmp_path, replayed):
    door = CountingDoor()

    def task(epoch):
        before, records = door.bytes, replayed[0]
        assert open_storage(address).get(f"manifests/{epoch:010}") == b"m" * 2000
        return door.bytes - before, replayed[0] - records

    address = f"log://{tmp_path / 'log'}"
    with through(door):
        costs = run(address, task)
    early, late = costs[20:120], costs[-100:]
    assert max(records for _, records in late) <= PUTS_PER_EPOCH
    assert sum(read for read, _ in late) <= 1.05 * sum(read for read, _ in early)


def test_a_new_process_replays_a_bounded_number_of_records(tmp_path, replayed):
    def task(epoch):
        if epoch % 25:
            return 0
        records = replayed[0]
        assert LogStorage(tmp_path / "log", door).contains(f"manifests/{epoch:010}")
        return replayed[0] - records

    door = CountingDoor()
    with through(door):
        costs = run(f"log://{tmp_path / 'log'}", task)
    assert 0 < max(costs) <= INDEX_RECORDS_MIN + PUTS_PER_EPOCH


def test_a_child_of_a_process_that_knows_a_log_opens_it_for_itself(tmp_path):
    address = f"log://{tmp_path / 'log'}"
    open_storage(address).put("manifests/0000000001", b"m")

    def work():
        assert open_storage(address).get("manifests/0000000001") == b"m"
        open_storage(address).put("manifests/0000000002", b"n")

    with log._known.lock:
        assert in_child(work) == 0
    assert open_storage(address).get("manifests/0000000002") == b"n"


def test_many_logs_in_one_process_keep_few_files_open(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3 * log.LOGS_MAX):
        open_storage(f"log://{tmp_path / str(number)}").put("genesis", b"g")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + log.LOGS_MAX
    assert open_storage(f"log://{tmp_path / '0'}").get("genesis") == b"g"

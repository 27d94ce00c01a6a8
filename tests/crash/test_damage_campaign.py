"""Damage at places that nobody chose: logs, local stores and staged replies, thousands of times with a new seed.

The seed is printed; `MILLPOND_TEST_SEED` repeats a run.
"""

from __future__ import annotations

import logging
import random
import shutil

import pytest

from millpond.engine.publish.replies import STAGING
from millpond.errors import StorageError
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from millpond.storage.backends.log.log import LogStorage
from tests.children import in_child
from tests.programs.keyed import fresh_seed
from tests.programs.ledger import BATCHES, state_after
from tests.regression.test_damaged_local_stores import filled, read
from tests.regression.test_rollback_of_storage import REFUSED, believed, cut, log_ends, log_file, written, zero
from tests.regression.test_staged_replies import DAMAGES
from tests.unit.engine.publish.test_publish import REPLIES, Stage

pytestmark = pytest.mark.campaign

LOGS, STORES, SINKS = 2000, 3000, 1000


@pytest.fixture
def chance():
    return random.Random(fresh_seed())


def test_no_damage_of_a_log_is_taken_for_an_older_epoch(tmp_path, chance):
    written(tmp_path / "log", LogStorage, copies=tmp_path / "copies")
    end, whole, refused = log_ends(tmp_path / "log"), state_after(len(BATCHES)), 0
    for _ in range(LOGS):
        place = tmp_path / "damaged"
        shutil.copytree(tmp_path / "log", place)
        if chance.random() < 0.5:
            for index in place.glob("index-*"):
                index.unlink()
        at = chance.randrange(end)
        kind = chance.choice(["cut", "zero", "older", "flip", "gone"])
        if kind == "cut":
            cut(log_file(place), at)
        elif kind == "zero":
            zero(log_file(place), at)
        elif kind == "older":
            shutil.copy(log_file(tmp_path / "copies" / str(chance.randrange(1, len(BATCHES)))), log_file(place))
        elif kind == "flip":
            data = bytearray(log_file(place).read_bytes())
            data[at] ^= 1 << chance.randrange(8)
            log_file(place).write_bytes(bytes(data))
        else:
            log_file(place).unlink()
        found = believed(f"log://{place}")
        assert found in REFUSED | {"MP302", "MP303", "MP310"} if isinstance(found, str) else found == whole, (kind, at)
        refused += isinstance(found, str)
        shutil.rmtree(place)
    assert refused > LOGS // 2


def test_no_damage_of_a_local_store_is_a_crash_or_a_wrong_answer(tmp_path, chance):
    held = filled(tmp_path / "store", seed=chance.randrange(1000))
    data = (tmp_path / "store" / "data.mdb").read_bytes()

    def tried():
        logging.disable(logging.CRITICAL)
        for number in range(STORES):
            changed = bytearray(data)
            for _ in range(chance.choice([1, 1, 1, 2, 20])):
                changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            if chance.random() < 0.1:
                del changed[chance.randrange(len(data)) :]
            (tmp_path / "store" / "data.mdb").write_bytes(bytes(changed))
            assert read(tmp_path / "store") in (None, held), number
            shutil.rmtree(tmp_path / "store")
            (tmp_path / "store").mkdir()

    assert in_child(tried) == 0


def test_no_damaged_reply_reaches_a_sink(tmp_path, chance):
    for number in range(SINKS):
        visible = chance.random() < 0.5
        work = Stage(tmp_path / str(number), visible=visible)
        sink = parquet(work.root) if visible else memory()
        damaged = chance.choice(sorted((work.root / STAGING).iterdir()))
        whole = damaged.read_bytes()
        chance.choice(DAMAGES)(damaged, chance)
        with pytest.raises(StorageError, match="MP321"):
            work.publish(sink)
        assert work.published() == []
        damaged.write_bytes(whole)
        work.publish(sink)
        assert visible or [row["reply"] for row in sink.rows()] == REPLIES
        shutil.rmtree(work.root)

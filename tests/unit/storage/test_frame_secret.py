"""Files signed with a secret: another one, none, a missing signature and a forged file are refused, each by a code."""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import background, snapshots
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.errors import MillpondError, StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.frame import (
    FILE_VARIABLE,
    FRAME_VERSION,
    SIGNATURE_BYTES,
    SIGNED_VERSION,
    VARIABLE,
    FrameKind,
    current_secret,
    seal,
    unseal,
)
from tests.programs.keyed import Recommender, oracle, random_rows
from tests.programs.ledger import BATCHES, MemorySink, open_ledger, run_batch, state_after
from tests.sizes import some_of

NAME = "deltas/some-file"
SECRET = "00ff" * 16
OTHER = "00fe" * 16
IN_FIXTURES = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=some_of(50)
)


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)


@pytest.fixture
def use(monkeypatch):
    """Set the secret of this process, or take it away."""

    def change(secret):
        if secret is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, secret)

    return change


def refused(call):
    with pytest.raises(MillpondError) as caught:
        call()
    told = str(caught.value)
    assert SECRET not in told
    assert OTHER not in told
    return caught.value.code


@IN_FIXTURES
@given(kind=st.sampled_from(FrameKind), payload=st.binary(max_size=200))
def test_what_is_signed_is_read_with_the_same_secret_and_is_the_same_each_time(use, kind, payload):
    use(SECRET)
    data = seal(kind, payload)
    assert unseal(kind, data, NAME) == payload
    assert seal(kind, payload) == data, "a task that runs twice writes one file"
    assert data[-SIGNATURE_BYTES:] == hmac.digest(bytes.fromhex(SECRET), data[:-SIGNATURE_BYTES], "sha256")


def test_without_a_secret_the_bytes_are_those_of_version_1(use):
    plain = seal(FrameKind.DELTA, b"payload")
    assert struct.unpack_from(">H", plain, 4) == (FRAME_VERSION,)
    use(SECRET)
    signed = seal(FrameKind.DELTA, b"payload")
    assert struct.unpack_from(">H", signed, 4) == (SIGNED_VERSION,)
    assert len(signed) == len(plain) + SIGNATURE_BYTES


@pytest.mark.parametrize(
    ("written", "read", "code"),
    [(SECRET, OTHER, "MP343"), (SECRET, None, "MP341"), (None, SECRET, "MP342"), (SECRET, SECRET + "01", "MP343")],
)
def test_another_secret_none_and_no_signature_are_told_apart(use, written, read, code):
    use(written)
    data = seal(FrameKind.MANIFEST, b"payload")
    use(read)
    assert refused(lambda: unseal(FrameKind.MANIFEST, data, NAME)) == code


def test_a_signature_that_was_taken_away_is_missed_however_the_header_is_mended(use):
    use(SECRET)
    data = seal(FrameKind.DELTA, b"payload")
    assert refused(lambda: unseal(FrameKind.DELTA, data[:-SIGNATURE_BYTES], NAME)) == "MP301"
    head = data[:4] + struct.pack(">H", FRAME_VERSION) + data[6:16]
    downgraded = head + struct.pack(">I", zlib.crc32(head)) + data[20:-SIGNATURE_BYTES]
    use(None)
    assert unseal(FrameKind.DELTA, downgraded, NAME) == b"payload", "it is a sound file of version 1"
    use(SECRET)
    assert refused(lambda: unseal(FrameKind.DELTA, downgraded, NAME)) == "MP342"


@pytest.mark.parametrize("kind", FrameKind)
def test_a_file_that_somebody_made_up_is_refused_though_all_its_checksums_are_right(use, kind):
    use(SECRET)
    real = seal(kind, b"a payload of ours")
    head = struct.pack(">4sHBBQ", b"MPND", SIGNED_VERSION, kind, 0, 5)
    body = head + struct.pack(">I", zlib.crc32(head)) + b"forged"[:5] + hashlib.sha256(b"forge").digest()
    for signature in (bytes(SIGNATURE_BYTES), real[-SIGNATURE_BYTES:], hashlib.sha256(body).digest()):
        assert refused(lambda signature=signature: unseal(kind, body + signature, NAME)) == "MP343"


def test_the_kind_is_part_of_what_is_signed(use):
    use(SECRET)
    data = seal(FrameKind.DELTA, b"payload")
    head = data[:6] + bytes([FrameKind.SNAPSHOT]) + data[7:16]
    turned = head + struct.pack(">I", zlib.crc32(head)) + data[20:]
    assert refused(lambda: unseal(FrameKind.SNAPSHOT, turned, NAME)) == "MP343"


def test_every_flipped_bit_of_a_signed_file_is_seen(use):
    use(SECRET)
    good = seal(FrameKind.DELTA, b"payload")
    codes = set()
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            codes.add(refused(lambda bad=bad: unseal(FrameKind.DELTA, bytes(bad), NAME)))
    assert codes == {"MP301", "MP343"}


def test_the_comparison_takes_as_long_however_much_of_it_is_right(use, monkeypatch):
    asked = []
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: asked.append((one, other)) or True)
    use(SECRET)
    data = seal(FrameKind.DELTA, b"payload")
    unseal(FrameKind.DELTA, data[:-1] + bytes([data[-1] ^ 1]), NAME)
    assert len(asked) == 1


@pytest.mark.parametrize(
    "text", ["", "00", "00ff" * 8, "zz" * 32, "0" * 65, "a password that somebody likes, and long enough"]
)
def test_a_secret_that_is_weak_or_is_none_is_refused_and_not_told(monkeypatch, tmp_path, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(StorageError) as caught:
        current_secret()
    assert caught.value.code == "MP344"
    assert len(text) < 3 or text not in str(caught.value)
    monkeypatch.delenv(VARIABLE)
    (tmp_path / "secret").write_text(text)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "secret"))
    assert refused(current_secret) == "MP344"


def test_the_secret_may_be_in_a_file_whose_path_is_given(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text(SECRET.upper() + "\n")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "secret"))
    assert current_secret() == bytes.fromhex(SECRET)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "gone"))
    assert refused(current_secret) == "MP344"
    monkeypatch.setenv(VARIABLE, SECRET)
    assert refused(current_secret) == "MP344"


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_whole_checkpoint_is_signed_and_nobody_reads_it_without_the_secret(use, tmp_path, monkeypatch):
    """Snapshots included, which a process of its own makes: it finds the secret where its driver did."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    monkeypatch.setattr(background, "AT_ONCE_BYTES", 0)
    use(SECRET)
    storage = FileStorage(tmp_path / "c")
    checkpoint = open_ledger(storage)
    for batch in range(2):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    assert checkpoint._snapshots._process.wait(600) == 0
    for batch in range(2, len(BATCHES)):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    assert checkpoint.head.snapshot_epoch == 2
    checkpoint.close()
    assert read_state(storage) == state_after(len(BATCHES))
    for data in files_of(tmp_path / "c").values():
        assert SECRET.encode() not in data
        assert bytes.fromhex(SECRET) not in data
        assert struct.unpack_from(">H", data, 4) == (SIGNED_VERSION,)
    for secret, code in ((None, "MP341"), (OTHER, "MP343")):
        use(secret)
        assert refused(lambda: open_ledger(storage)) == code
        assert refused(lambda: read_state(storage)) == code


@pytest.mark.parametrize("kind", ["genesis", "manifests", "deltas", "snapshots"])
def test_a_file_of_a_signed_checkpoint_can_not_be_replaced_by_one_that_is_not(use, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    contents = {}
    for secret, folder in ((None, "plain"), (SECRET, "signed")):
        use(secret)
        storage = FileStorage(tmp_path / folder)
        checkpoint = open_ledger(storage)
        for batch in range(len(BATCHES)):
            run_batch(checkpoint, storage, batch, MemorySink().publish)
        contents[folder] = checkpoint.head
    named = {
        "genesis": lambda head: "genesis",
        "manifests": lambda head: head.name,
        "deltas": lambda head: head.deltas[-1].files[0].file.name,
        "snapshots": lambda head: head.snapshot[0].file.name,
    }[kind]
    forged = (tmp_path / "plain" / named(contents["plain"])).read_bytes()
    (tmp_path / "signed" / named(contents["signed"])).write_bytes(forged)
    assert refused(lambda: read_state(FileStorage(tmp_path / "signed"))) in {"MP342", "MP310"}


def test_a_program_runs_signed_as_it_runs_without(use, tmp_path):
    rows = random_rows(Recommender, 5, 40)
    wanted = oracle(Recommender, rows)
    use(SECRET)
    compiled = compile_program(Recommender)
    for start in (0, 20):
        Simulated(compiled, tmp_path, 2).epoch(rows[start : start + 20])
    assert read_state(FileStorage(tmp_path / "checkpoint")) == wanted.state

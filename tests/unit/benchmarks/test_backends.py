"""The benchmark of backends: small, whole, and refusing to print what is wrong."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks import backends
from benchmarks.__main__ import make_parser
from benchmarks.report import BenchmarkError, Teller
from millpond.storage.memory import MemoryStorage

KINDS = "memory,log,files,perkey,perkey_faithful,rocksdb_one_owner,redis"


def options_of(*words):
    return backends.read_options(make_parser().parse_args(["backends", *words]))


def test_every_backend_is_filled_opened_again_and_checked(tmp_path):
    options = options_of(
        "--keys", "20,40", "--writers", "1,3", "--turns", "1", "--folder", str(tmp_path), "--backends", KINDS
    )
    figures = backends.run(options, None, Teller(Console(file=io.StringIO())))
    assert figures["checked"] is True
    assert figures["indexed_vs_files"] > 0
    for kind in KINDS.split(","):
        assert figures[kind]["keys"] == 40
        assert set(figures[kind]["by_keys_and_writers"]) == {"20x1", "20x3", "40x1", "40x3"}
        assert figures[kind]["writes_per_s"] > 0
        assert figures[kind]["reads_per_s"] > 0
    assert figures["log"]["durable"]
    assert not figures["perkey_faithful"]["durable"]
    assert list(tmp_path.iterdir()) == []


def test_a_turn_ends_when_its_time_is_over(tmp_path):
    options = options_of("--keys", "1_000_000", "--seconds", "0.05", "--turns", "1", "--backends", "files")
    measured = backends.measure(lambda: backends.open_storage(str(tmp_path / "x")), 1_000_000, 2, options)
    assert 0 < measured.keys < 10_000


@pytest.mark.parametrize("harm", ["loses", "changes"])
def test_a_storage_that_is_wrong_gets_no_figures(harm):
    class Wrong(MemoryStorage):
        def put(self, name, data):
            return super().put(name, data if harm == "loses" else data[:-1] + b"?")

        def list(self, prefix):
            return super().list(prefix)[1:] if harm == "loses" else super().list(prefix)

    storage = Wrong()
    options = options_of("--keys", "30", "--backends", "memory")
    with pytest.raises(BenchmarkError):
        backends.measure(lambda: storage, 30, 1, options)


def test_an_unknown_backend_is_refused():
    with pytest.raises(BenchmarkError, match="floppy"):
        options_of("--backends", "log,floppy")

"""The benchmark of backends: small, whole, and refusing to print what is wrong."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks import backends
from benchmarks.__main__ import make_parser
from benchmarks.report import BenchmarkError, Teller
from millpond.storage.backends.memory import MemoryStorage

KINDS = "memory,log,files,perkey,perkey_faithful,rocksdb_one_owner,redis"


def options_of(*words):
    return backends.read_options(make_parser().parse_args(["backends", *words]))


def test_every_backend_is_filled_opened_again_and_checked(tmp_path):
    options = options_of(
        *("--keys", "40,20", "--writers", "1,3", "--turns", "1", "--seconds", "0.02"),
        *("--folder", str(tmp_path), "--backends", KINDS),
    )
    figures = backends.run(options, None, Teller(Console(file=io.StringIO())))
    assert figures["checked"] is True
    assert figures["indexed_vs_files"] > 0
    for kind in KINDS.split(","):
        assert figures[kind]["keys"] >= 40
        assert [set(each["by_writers"]) for each in figures[kind]["by_keys"].values()] == [{"1", "3"}] * 2
        assert figures[kind]["by_keys"]["20"]["keys"] == 20
        assert figures[kind]["writes_largest_by_smallest"] > 0
        assert figures[kind]["writes_per_s"] > 0
        assert figures[kind]["reads_per_s"] > 0
    assert figures["log"]["durable"]
    assert not figures["perkey_faithful"]["durable"]
    assert list(tmp_path.iterdir()) == []


def test_filling_and_a_turn_end_when_their_time_is_over(tmp_path):
    options = options_of("--keys", "1_000_000", "--seconds", "0.05", "--fill-seconds", "0.05", "--backends", "files")
    storage = backends.Grown(lambda: backends.open_storage(str(tmp_path / "x")), options)
    storage.fill(1_000_000)
    filled = storage.open_again().keys
    storage.measure(2)
    assert 0 < filled < storage.keys < 100_000


@pytest.mark.parametrize("harm", ["loses", "changes"])
def test_a_storage_that_is_wrong_gets_no_figures(harm):
    class Wrong(MemoryStorage):
        def put(self, name, data):
            return super().put(name, data if harm == "loses" else data[:-1] + b"?")

        def list(self, prefix):
            return super().list(prefix)[1:] if harm == "loses" else super().list(prefix)

    wrong = Wrong()
    storage = backends.Grown(lambda: wrong, options_of("--keys", "30", "--backends", "memory"))
    storage.fill(30)
    with pytest.raises(BenchmarkError, match="are listed" if harm == "loses" else "does not have the value"):
        storage.open_again() if harm == "loses" else storage.check()


def test_a_value_that_changes_while_it_is_measured_gets_no_figures():
    class Forgetful(MemoryStorage):
        def get(self, name):
            return super().get(name)[:-1]

    forgetful = Forgetful()
    storage = backends.Grown(lambda: forgetful, options_of("--keys", "30", "--seconds", "0.01"))
    storage.fill(30)
    with pytest.raises(BenchmarkError, match="does not have the value"):
        storage.measure(2)


def test_an_unknown_backend_is_refused():
    with pytest.raises(BenchmarkError, match="floppy"):
        options_of("--backends", "log,floppy")

from __future__ import annotations

import pytest

from benchmarks import keyed_state, latency, word_count
from benchmarks.__main__ import BENCHMARKS, make_parser
from benchmarks.report import BenchmarkError


def options_of(line: str):
    args = make_parser().parse_args(line.split())
    return BENCHMARKS[args.name].read_options(args)


def test_sizes_are_those_of_the_peers_unless_told_otherwise():
    assert options_of("keyed_state") == keyed_state.Options(events=2_000_000, keys=(200_000,))
    assert options_of("word_count") == word_count.Options(lines=1_000_000, words=50_000)
    assert options_of("latency") == latency.Options(rate=2_000, seconds=30.0, warm_up=10.0)


def test_every_size_can_be_chosen():
    line = "keyed_state --events 1_000 --keys 10,20 --epochs 4 --partitions 3 --repeat 1 --seconds 5 --seed 7"
    assert options_of(line) == keyed_state.Options(1_000, (10, 20), 4, 3, 1, 5.0, 7)
    line = "word_count --lines 9 --words 8 --partitions 1 --repeat 2 --no-tws --seed 3"
    assert options_of(line) == word_count.Options(9, 8, 1, 2, None, 3)
    line = "latency --rate 10 --keys 5 --seconds 1.5 --warm-up 0.5 --partitions 1 --no-tws --seed 3"
    assert options_of(line) == latency.Options(10, 5, 1.5, 0.5, 1, False, 3)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "sorting",
        "keyed_state --events 0",
        "keyed_state --keys 10,0",
        "keyed_state --keys 10,10",
        "keyed_state --keys ten",
        "keyed_state --seconds 0",
        "word_count --lines -5",
        "latency --warm-up nan",
        "latency --seconds inf",
    ],
)
def test_a_senseless_option_is_refused_before_anything_runs(line, capsys):
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args(line.split())
    assert caught.value.code == 2
    assert "usage: python -m benchmarks" in capsys.readouterr().err


def test_more_epochs_than_events_are_refused():
    with pytest.raises(BenchmarkError, match="can't fill 3 epochs"):
        options_of("keyed_state --events 2 --epochs 3")


def test_with_several_numbers_of_keys_each_key_can_occur():
    assert keyed_state.Options(events=100, keys=(10, 500, 50)).events_each == 500
    assert keyed_state.Options(events=100, keys=(500,)).events_each == 100


def test_contestants_meet_at_the_default_number_of_keys_or_in_the_middle():
    assert keyed_state.Options(keys=(10_000, 200_000, 5_000_000)).keys_compared == 200_000
    assert keyed_state.Options(keys=(30, 10, 20)).keys_compared == 20


def test_the_warm_up_of_latency_comes_on_top_of_what_is_measured():
    options = latency.Options(rate=100, seconds=3.0, warm_up=2.0)
    assert (options.unmeasured, options.count) == (200, 500)

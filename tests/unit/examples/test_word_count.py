from __future__ import annotations

from collections import Counter as Tally

from hypothesis import given
from hypothesis import strategies as st

from examples import word_count
from examples.word_count import ASKED, VOCABULARY, LineCount, WordCount, make_text, plain_run
from millpond.engine.sequential import Sequential
from tests.sizes import compile_once


def test_the_text_follows_from_its_seed_and_is_cut_without_loss():
    whole = make_text(1, 50, 1)[0]
    assert len(whole) == 50
    assert [line for part in make_text(1, 50, 3) for line in part] == whole
    assert make_text(2, 50, 1)[0] != whole


def test_frequent_words_come_first_in_the_vocabulary():
    tally = Tally(word for line in make_text(1, 500, 1)[0] for word in line.split())
    assert tally[VOCABULARY[0]] > tally[VOCABULARY[4]] > tally[VOCABULARY[-1]] > 0


def test_counts_grow_with_the_text_and_unknown_words_stay_at_zero():
    counts = plain_run([["the mill"], ["the pond"]])
    assert (0, "the", 1) in counts
    assert (1, "the", 2) in counts
    assert (1, "turbine", 0) in counts
    assert len(counts) == 2 * len(ASKED)


@given(st.lists(st.lists(st.sampled_from(VOCABULARY[:5]), max_size=6).map(" ".join), max_size=12), st.integers(1, 9))
def test_both_programs_count_what_a_loop_counts(lines, instances):
    tally = Tally(word for line in lines for word in line.split())
    by_word, by_line = WordCount(), LineCount()
    cut_word = Sequential(compile_once(WordCount))
    cut_line = Sequential(compile_once(LineCount), instances=instances)
    for line in lines:
        by_line.add(line)
        cut_line.call("add", line)
        for word in line.split():
            by_word.add(word)
            cut_word.call("add", word)
    for word in (*VOCABULARY[:5], "turbine"):
        assert by_word.count(word) == by_line.count(word) == tally[word]
        assert cut_word.call("count", word) == cut_line.call("count", word) == tally[word]


def test_a_wrong_count_is_told_by_the_exit_code(monkeypatch, tmp_path, capsys, stopped_spark):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(word_count, "local_session", lambda name: stopped_spark)
    monkeypatch.setattr(word_count, "count_words", lambda *args: [])
    monkeypatch.setattr(word_count, "count_lines", lambda *args: [])
    assert word_count.main() == 1
    assert "differ" in capsys.readouterr().out

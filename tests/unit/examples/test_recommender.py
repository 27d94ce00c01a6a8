from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import recommender
from examples.films import FILMS, GENRES, Rating, Request, make_evening
from examples.recommender import Recommender, best, first_difference, plain_run, share_by_chance, share_in_taste
from millpond import Vector
from millpond.engine.sequential import Sequential
from tests.sizes import compile_once

SMALL = {"members": 60, "ratings": 1200, "requests": 100, "finale": 3}


def test_the_club_has_films_with_names_of_their_own_in_genres_of_one_size():
    assert len({title for title, _ in FILMS}) == len(FILMS) == 120
    assert {genre: [g for _, g in FILMS].count(genre) for genre in GENRES} == dict.fromkeys(GENRES, 20)


def test_an_evening_follows_from_its_seed():
    assert make_evening(1, **SMALL) == make_evening(1, **SMALL)
    assert make_evening(1, **SMALL) != make_evening(2, **SMALL)


def test_events_are_numbered_in_their_order_and_counted_as_asked():
    evening = make_evening(5, **SMALL)
    assert [event.at for event in evening.events] == list(range(1300))
    assert (len(evening.ratings), len(evening.requests)) == (1200, 100)
    assert evening.events[-3:] == (Request(1297, 0), Request(1298, 1), Request(1299, 2))


def test_stars_are_halves_so_that_sums_are_exact():
    assert {rating.stars for rating in make_evening(5, **SMALL).ratings} <= {half / 2 for half in range(1, 11)}


def test_films_rated_by_one_user_are_counted_as_seen_together():
    program = Recommender()
    program.rate(1, 10, 5.0)
    program.rate(1, 11, 4.0)
    program.rate(2, 10, 4.5)
    assert (program.together[10, 11], program.together[11, 10]) == (1, 1)
    assert program.recommend(2) == {11: 2.0}


def test_rating_a_film_again_changes_the_stars_and_counts_nothing():
    program = Recommender()
    for stars in (5.0, 3.0):
        program.rate(1, 10, stars)
        program.rate(1, 11, stars)
    assert program.together[10, 11] == 1
    assert program.ratings[1, 10] == 3.0


def test_a_film_that_goes_with_disliked_ones_is_not_recommended():
    program = Recommender()
    program.rate(1, 10, 5.0)
    program.rate(1, 11, 5.0)
    program.rate(2, 10, 0.5)
    assert program.recommend(2) == {}


def test_the_best_are_unseen_and_the_lower_number_wins_a_tie():
    scores: Vector[int] = Vector({1: 9.0, 2: 3.0, 3: 3.0, 4: 5.0, 5: -1.0})
    assert list(best(scores, Vector({1: 4.0}), 2).items()) == [(4, 5.0), (2, 3.0)]


def test_answers_are_in_the_users_taste_far_more_often_than_by_chance():
    evening = make_evening(9, **SMALL)
    _, answers = plain_run(evening)
    share = share_in_taste(evening, answers, 650, 1300)
    assert share is not None
    assert share > 4 * share_by_chance(evening)


def test_a_share_of_no_answers_is_none():
    assert share_in_taste(make_evening(9, **SMALL), [], 0, 1300) is None


EVENTS = st.one_of(
    st.builds(Rating, st.just(0), st.integers(0, 4), st.integers(0, 9), st.integers(1, 10).map(lambda half: half / 2)),
    st.builds(Request, st.just(0), st.integers(0, 4)),
)


@given(st.lists(EVENTS, max_size=60), st.integers(1, 9))
def test_copies_that_diverge_give_the_answers_of_one(events, instances):
    plain, cut = Recommender(), Sequential(compile_once(Recommender), instances=instances)
    for event in events:
        if isinstance(event, Rating):
            plain.rate(event.user, event.film, event.stars)
            cut.call("rate", event.user, event.film, event.stars)
        else:
            assert list(cut.call("recommend", event.user).items()) == list(plain.recommend(event.user).items())


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([(1, [(2, 3.0)]), (4, [])], "none"),
        ([(1, [(2, 3.0)])], "expected (4, []), found None"),
        ([(1, [(2, 3.0)]), (1, [(2, 3.0)]), (4, [])], "expected (4, []), found (1, [(2, 3.0)])"),
    ],
)
def test_the_first_difference_shows_what_is_missing_or_given_twice(found, words):
    assert first_difference(found, [(1, [(2, 3.0)]), (4, [])]) == words


def test_a_wrong_answer_is_told_by_the_exit_code(monkeypatch, tmp_path, capsys, stopped_spark):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recommender, "local_session", lambda name: stopped_spark)
    outcome = recommender.Outcome([], (), tmp_path, tmp_path)
    monkeypatch.setattr(recommender, "spark_run", lambda *args: outcome)
    assert recommender.main(600) == 1
    assert "differ" in capsys.readouterr().out
    assert stopped_spark.stopped

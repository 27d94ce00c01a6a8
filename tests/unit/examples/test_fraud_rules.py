from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from examples import fraud_rules
from examples.fraud_rules import FraudRules, Notice, Payment, make_events, plain_run
from millpond.engine.sequential import Sequential
from tests.sizes import compile_once


def kinds(alarms):
    return [alarm.partition(":")[0] for alarm in alarms]


def test_the_fifth_payment_in_ten_minutes_is_too_fast():
    rules = FraudRules()
    alarms = [rules.pay("a", 100, "AT", at) for at in (0, 100, 200, 300, 599)]
    assert [kinds(alarm) for alarm in alarms] == [[], [], [], [], ["velocity"]]


def test_payments_leave_the_window_after_ten_minutes():
    rules = FraudRules()
    assert [rules.pay("a", 100, "AT", at) for at in (0, 100, 200, 300, 600)] == [[]] * 5


def test_an_amount_far_above_the_usual_is_a_jump_once_there_is_a_history():
    rules = FraudRules()
    assert rules.pay("new", 100_000, "AT", 0) == []
    for at in range(0, 5000, 1000):
        rules.pay("a", 100, "AT", at)
    assert rules.pay("a", 800, "AT", 5000) == []
    assert kinds(rules.pay("a", 5000, "AT", 6000)) == ["jump"]


def test_two_countries_within_two_hours_are_impossible_travel():
    rules = FraudRules()
    rules.pay("a", 100, "AT", 0)
    assert rules.pay("a", 100, "JP", 3600) == ["travel: AT to JP in 60 minutes"]
    assert rules.pay("a", 100, "AT", 3600 + 7200) == []


def test_an_announced_journey_is_no_surprise():
    rules = FraudRules()
    rules.pay("a", 100, "AT", 0)
    rules.announce("a", "JP")
    assert rules.pay("a", 100, "JP", 60) == []


def test_a_payment_may_break_several_rules():
    rules = FraudRules()
    for at in range(5):
        rules.pay("a", 100, "AT", at)
    assert kinds(rules.pay("a", 90_000, "BR", 10)) == ["velocity", "jump", "travel"]


def test_accounts_know_nothing_of_each_other():
    rules = FraudRules()
    rules.pay("a", 100, "AT", 0)
    assert rules.pay("b", 100, "JP", 1) == []


def test_events_follow_from_their_seed_in_the_order_of_time_and_break_every_rule():
    events = make_events(4, 800, 20)
    assert events == make_events(4, 800, 20)
    assert events != make_events(5, 800, 20)
    times = [event.at for event in events]
    assert times == sorted(set(times))
    broken = {kind for _, _, alarms in plain_run(events) for kind in kinds(alarms)}
    assert broken == {"velocity", "jump", "travel"}
    assert any(not alarms for _, _, alarms in plain_run(events))


EVENTS = st.lists(
    st.one_of(
        st.builds(
            Payment, st.integers(1, 900), st.sampled_from("ab"), st.integers(1, 10**6), st.sampled_from(["AT", "JP"])
        ),
        st.builds(Notice, st.just(0), st.sampled_from("ab"), st.sampled_from(["AT", "JP"])),
    ),
    max_size=30,
)


@given(EVENTS)
def test_the_compiled_rules_judge_as_the_class_does(events):
    plain, cut = FraudRules(), Sequential(compile_once(FraudRules))
    at = 0
    for event in events:
        at += event.at
        if isinstance(event, Notice):
            plain.announce(event.account, event.country)
            cut.call("announce", event.account, event.country)
        else:
            row = (event.account, event.cents, event.country, at)
            assert cut.call("pay", *row) == plain.pay(*row)


def test_a_wrong_verdict_is_told_by_the_exit_code(monkeypatch, tmp_path, capsys, stopped_spark):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fraud_rules, "local_session", lambda name: stopped_spark)
    monkeypatch.setattr(fraud_rules, "spark_run", lambda *args: [])
    assert fraud_rules.main() == 1
    assert "differ" in capsys.readouterr().out

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from examples import kv_store
from examples.kv_store import KeyValueStore, make_log, plain_run
from millpond.engine.sequential import Sequential
from tests.sizes import compile_once


def test_a_key_has_its_last_value_until_it_is_deleted():
    store = KeyValueStore()
    assert store.get("a") is None
    store.put("a", "1")
    store.put("a", "2")
    assert store.get("a") == "2"
    assert store.delete("a") is True
    assert store.get("a") is None
    assert store.delete("a") is False


def test_an_empty_value_is_a_value():
    store = KeyValueStore()
    store.put("a", "")
    assert store.get("a") == ""
    assert store.delete("a") is True


def test_a_log_follows_from_its_seed_and_has_all_kinds_of_operations():
    log = make_log(1, 300, 10)
    assert log == make_log(1, 300, 10)
    assert log != make_log(2, 300, 10)
    assert {line.kind for line in log} == {"put", "get", "delete"}
    assert [line.at for line in log] == list(range(300))


def test_replies_of_a_log_are_found_missing_and_deleted():
    replies = plain_run(make_log(1, 300, 10))
    assert {reply is None for _, reply in replies["get"]} == {True, False}
    assert {reply for _, reply in replies["delete"]} == {True, False}


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "delete"]), st.sampled_from("abc"), st.text(max_size=3))))
def test_the_store_is_a_dict(operations):
    model: dict[str, str] = {}
    plain, cut = KeyValueStore(), Sequential(compile_once(KeyValueStore))
    for kind, key, value in operations:
        if kind == "put":
            plain.put(key, value)
            cut.call("put", key, value)
            model[key] = value
        elif kind == "get":
            assert plain.get(key) == cut.call("get", key) == model.get(key)
        else:
            assert plain.delete(key) == cut.call("delete", key) == (model.pop(key, None) is not None)


def test_a_wrong_reply_is_told_by_the_exit_code(monkeypatch, tmp_path, capsys, stopped_spark):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kv_store, "local_session", lambda name: stopped_spark)
    monkeypatch.setattr(kv_store, "spark_run", lambda *args: {"get": [], "delete": []})
    assert kv_store.main() == 1
    assert "differ" in capsys.readouterr().out

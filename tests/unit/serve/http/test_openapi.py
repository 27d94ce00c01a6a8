"""The OpenAPI page says what the server does: whatever it allows is answered as it says."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from millpond.serve.http.server import application
from tests.sizes import sized

NAMES = frozenset({"testserver"})
"""How the fuzzer calls the server."""


def test_the_page_names_what_can_be_asked(asked):
    page = asked.get("/openapi.json").json()
    assert {"/state", "/state/{element}", "/changes/{element}", "/balance", "/richest"} <= page["paths"].keys()
    assert not {"/pay", "/wipe", "/look"} & page["paths"].keys()
    body = page["paths"]["/carts"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["properties"], body["required"]) == (
        {"name": {"type": "string"}, "item": {"type": "integer"}},
        ["name"],
    )
    assert page["components"]["schemas"]["Account"]["properties"]["balance"] == {"type": "integer"}
    assert page["paths"]["/balance"]["post"]["summary"] == "What somebody has."


def test_whatever_the_page_allows_has_an_answer_that_it_tells(follower, checkpoint):
    schema = schemathesis.openapi.from_asgi("/openapi.json", application(follower, str(checkpoint), names=NAMES))
    count = 0
    for found in schema.exclude(path_regex="^/changes/").get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=sized(25, 6),
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case):
            nonlocal count
            answer = case.call()
            assert answer.status_code != 500, answer.text
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])
            count += 1

        ask()
    assert count > 50

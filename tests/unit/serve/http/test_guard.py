"""Who may ask, from where, how much and how often."""

from __future__ import annotations

import pytest

from millpond.serve.http.options import Limits, read_tokens

TOKENS = """
[[token]]
name = "all"
secret = "a-long-secret-for-all"

[[token]]
name = "reader"
secret = "a-long-secret-to-read"
rights = ["read"]
elements = ["accounts"]
"""


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@pytest.fixture
def guarded(serving):
    return serving(tokens=read_tokens(TOKENS))


ROUTES = [("GET", "/state"), ("GET", "/state/accounts"), ("GET", "/state/accounts/ann"), ("POST", "/state")]
ROUTES += [("GET", "/changes/accounts"), ("POST", "/balance"), ("GET", "/openapi.json"), ("GET", "/nowhere")]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("headers", [{}, bearer("wrong"), {"authorization": "Basic YTpi"}, bearer("")])
def test_without_a_token_nothing_answers_but_health(guarded, method, path, headers):
    answer = guarded(method, path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "MP895")
    assert guarded.get(f"{path}?token=a-long-secret-for-all").status_code == 401
    assert guarded.get("/health").status_code == 200


def test_a_token_may_what_it_may(guarded):
    reader, full = bearer("a-long-secret-to-read"), bearer("a-long-secret-for-all")
    assert guarded.get("/state/accounts/ann", headers=reader).status_code == 200
    assert guarded.get("/state/visits", headers=reader).json()["error"]["code"] == "MP899"
    assert guarded.get("/changes/visits", headers=reader).status_code == 403
    assert [one["name"] for one in guarded.get("/state", headers=reader).json()["elements"]] == ["accounts"]
    wanted = {"get": [{"element": "visits", "keys": ["ann"]}]}
    assert guarded.post("/state", headers=reader, json=wanted).status_code == 403
    assert guarded.post("/balance", headers=reader, json={"name": "ann"}).status_code == 403
    assert guarded.post("/balance", headers=full, json={"name": "ann"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example", "[bad"])
def test_other_hosts_are_refused(asked, host):
    answer = asked.get("/state", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "MP894")


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1:1234", "[::1]:9", "LOCALHOST"])
def test_names_of_loopback_are_taken(asked, host):
    assert asked.get("/state", headers={"host": host}).status_code == 200


def test_named_hosts_are_taken(serving):
    asked = serving(names=frozenset({"state.example"}))
    assert asked.get("/state", headers={"host": "state.example"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("null", 403), ("http://localhost", 200)]
)
def test_pages_of_other_sites_may_not_ask(asked, origin, status):
    answer = asked.post("/balance", json={"name": "ann"}, headers={"origin": origin})
    assert answer.status_code == status


def test_large_bodies_are_refused(serving):
    asked = serving(limits=Limits(body_bytes=100))
    answer = asked.post("/balance", content=b"x" * 101)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "MP892")

    async def pieces():
        for _ in range(20):
            yield b"x" * 10

    assert asked.post("/balance", content=pieces()).status_code == 413


def test_too_many_requests_are_told_to_wait(serving):
    asked = serving(limits=Limits(rate=2))
    assert [asked.get("/state").status_code for _ in range(3)] == [200, 200, 429]
    answer = serving(limits=Limits(requests=0)).get("/state")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "MP896")


def test_answers_carry_what_keeps_browsers_safe(asked):
    headers = asked.get("/state/accounts/ann").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert asked.get("/health").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "token = 3",
        '[[token]]\nname = "a"',
        '[[token]]\nname = "a"\nsecret = "short"',
        '[[token]]\nname = "a"\nsecret = "0123456789abcdef"\nrights = ["all"]',
        '[[token]]\nname = "a"\nsecret = "0123456789abcdef"\nelements = "accounts"',
        '[[token]]\nname = "a"\nsecret = "0123456789abcdef"\nsha256 = "00"',
        '[[token]]\nname = "a"\nsha256 = "zz"',
        '[[token]]\nname = "a"\nsecret = "0123456789abcdef"\nright = []',
        '[[token]]\nsecret = "0123456789abcdef',
    ],
)
def test_a_file_of_tokens_that_is_none_is_refused_without_its_secrets(text):
    from millpond.errors import ServeError

    with pytest.raises(ServeError, match="MP891") as caught:
        read_tokens(text)
    assert "0123456789abcdef" not in str(caught.value)


def test_a_secret_may_be_given_by_its_digest():
    import hashlib

    digest = hashlib.sha256(b"hello").hexdigest()
    (token,) = read_tokens(f'[[token]]\nname = "a"\nsha256 = "{digest}"')
    assert token.knows("hello")
    assert not token.knows("hallo")

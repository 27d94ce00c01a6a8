"""What an operator sets of a server: who may ask what, and how much of it.

>>> [token] = read_tokens('token = [{name = "shop", secret = "0123456789abcdef", rights = ["read"]}]')
>>> token.name, token.may("read", "totals"), token.may("run")
('shop', True, False)
"""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from millpond.errors import ServeError
from millpond.storage.door import coded

RIGHTS: Final = ("read", "run")
"""To read state and changes, and to run entry points that change nothing."""

SECRET_MIN: Final = 16
_KNOWN: Final = frozenset({"name", "secret", "sha256", "rights", "elements"})


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes on; what is above is refused with 413, 429 or 503, and never waits for long."""

    body_bytes: int = 1 << 20
    requests: int = 64
    """So many are answered at the same time; changes that are listened to count apart."""
    listeners: int = 256
    rate: float = 0.0
    """Requests a second of one token, or of one address where there are no tokens; 0 for any number."""
    seconds: float = 10.0
    """How long an answer may take."""
    entries: int = 10_000
    """So many entries are in one page."""


@dataclass(frozen=True, slots=True)
class Token:
    """Somebody who may ask: known by a secret, of which only the digest is kept."""

    name: str
    digest: bytes = field(repr=False)
    rights: frozenset[str]
    elements: frozenset[str] | None = None

    def knows(self, secret: str) -> bool:
        """Say whether this is the secret, in a time that tells nothing of it."""
        return hmac.compare_digest(hashlib.sha256(secret.encode()).digest(), self.digest)

    def may(self, right: str, element: str | None = None) -> bool:
        """Say whether something may be done, to an element if one is named."""
        return right in self.rights and (element is None or self.elements is None or element in self.elements)


def read_token_file(path: Path) -> tuple[Token, ...]:
    """Read the tokens that a server takes from a TOML file."""
    with coded("read", str(path)):
        text = path.read_text(encoding="utf-8")
    return read_tokens(text)


def read_tokens(text: str) -> tuple[Token, ...]:
    """Read the tokens that a server takes: tables `[[token]]` with name, secret or sha256, rights and elements."""
    try:
        tables = tomllib.loads(text)["token"]
        return tuple(_token(table) for table in tables)
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        # Never the text itself, which holds secrets.
        raise _unfit(f"{type(error).__name__} while reading it") from None


def _token(table: dict[str, object]) -> Token:
    name, secret, digits = table.get("name"), table.get("secret"), table.get("sha256")
    rights = _texts(table.get("rights", list(RIGHTS)))
    elements = None if "elements" not in table else _texts(table["elements"])
    if not isinstance(name, str) or table.keys() - _KNOWN or (secret is None) == (digits is None):
        raise _unfit(f"a table with {', '.join(sorted(map(str, table)))}")
    if rights is None or rights - set(RIGHTS) or (elements is None and "elements" in table):
        raise _unfit(f"rights or elements of {name!r}")
    if isinstance(digits, str) and len(digits) == 2 * hashlib.sha256().digest_size:
        digest = bytes.fromhex(digits)
    elif isinstance(secret, str) and len(secret) >= SECRET_MIN:
        digest = hashlib.sha256(secret.encode()).digest()
    else:
        raise _unfit(f"the secret of {name!r}")
    return Token(name, digest, rights, elements)


def _texts(value: object) -> frozenset[str] | None:
    """Return texts of a list; None if it is anything else."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return None
    return frozenset(value)


def _unfit(found: str) -> ServeError:
    return ServeError(
        "MP891",
        "these are no tokens",
        expected=f"tables [[token]] with a name, a secret of {SECRET_MIN} letters or more or its sha256, "
        f"rights out of {', '.join(RIGHTS)}, and elements if not all of them",
        found=found,
    )

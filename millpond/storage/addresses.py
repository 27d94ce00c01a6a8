"""What people may see of an address: only what is known to be harmless.

An address may hold a password where one belongs, where none belongs, or where a typing error has put it. So it is not
searched for secrets; it is taken apart, and shown are its scheme, its host or bucket and its path, if each looks like
one, and the names of options that we know. All else is `***`: users, passwords, and whatever an option says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

HIDDEN = "***"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_HOST = re.compile(r"(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_NEAR = re.compile(r"near:\?kept=([^&]*)")
"""Deltas that stay near do not matter to people: the storage below has the address that they know."""

_ROOTS = frozenset({"spread", "elements"})
_ROOT = re.compile(
    r"((?:[0-9]{1,9}\*)|(?:[A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*(?::[0-9,]+)?=))?(.*)", re.DOTALL
)
"""A root of several: its weight or its elements, and its address."""

_BUCKETS = frozenset({"s3", "gs", "az"})
"""Schemes whose addresses have no place for a password before the path: an @ in an option is not in their way."""

_OPTIONS = frozenset({"endpoint", "region", "account", "durability", "owner", "process"})
_NOT_IN_PATHS = re.compile(
    r"[?#&;\s]|(?:pass|pwd?|secret|token|cred|sig|sas|auth|(?:access|account|api|private|shared)[_-]?key)[^/]*[=:]"
    r"|[^/:]*:[^/]*@",
    re.IGNORECASE,
)
"""What begins an option, what is called like a secret, and a user with a password."""

_NOT_BEHIND_QUOTES = re.compile(rf"{_NOT_IN_PATHS.pattern}|@|://", re.IGNORECASE)
"""What must not come out either when what is quoted as %40 is read."""

_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://).*@", re.DOTALL)
_USER_ANYWHERE = re.compile(r"(://|^//?)[^\s'\"<>]*@")
_USER_IN_PATH = re.compile(":.*@", re.DOTALL)
"""Folders may be called so, and are then not shown: an address whose scheme was lost looks the same."""

_OPTIONS_ANYWHERE = re.compile(r"\?[^\s'\"<>)]*")


def shown_url(url: str) -> str:
    """Return an address as people may see it."""
    near = _NEAR.match(url)
    if near is not None:
        return shown_url(unquote(near[1]))
    found = _SCHEME.fullmatch(url)
    if found is None:
        return _shown_path(url)
    scheme, rest = found[1], found[2]
    if not rest.startswith("//"):
        # Neither an address nor a path: it may begin with the name of a user.
        return f"{scheme}:{HIDDEN}" if rest.startswith("/") else HIDDEN
    rest = rest.removeprefix("//")
    if scheme.lower() in _ROOTS:
        return f"{scheme}://" + "|".join(map(_shown_root, rest.split("|")))
    base, mark, options = _parted(rest)
    if "@" in base:
        # Up to the last one: a password may hold any character, also one that should have been quoted.
        base = f"{HIDDEN}@{_shown_base(base.rpartition('@')[2])}"
    elif "@" in options and scheme.lower() not in _BUCKETS:
        base = HIDDEN
    else:
        base = _shown_base(base)
    return f"{scheme}://{base}{_shown_options(options) if mark else ''}"


def identity_of(url: str) -> str:
    """Say what an address is known by from run to run, in names of folders and in hashes: without user and password.

    Not for people; and not to be changed, for marks of roots and names of local folders are made of it.
    """
    near = _NEAR.match(url)
    return identity_of(unquote(near[1])) if near is not None else _USER.sub(rf"\1{HIDDEN}@", url)


def scrubbed(text: str, secrets: Iterable[str | None] = ()) -> str:
    """Return what a client or a server says, without what follows a ? in addresses, without users, without secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return _USER_ANYWHERE.sub(rf"\1{HIDDEN}@", _OPTIONS_ANYWHERE.sub(f"?{HIDDEN}", text))


def _parted(rest: str) -> tuple[str, str, str]:
    at = min((place for place in map(rest.find, "?#") if place >= 0), default=len(rest))
    return rest[:at], rest[at : at + 1], rest[at + 1 :]


def _shown_root(part: str) -> str:
    found = _ROOT.fullmatch(part)
    assert found is not None, "everything is an address"
    if found[1] and _NOT_IN_PATHS.search(found[1]):
        # It may as well be an option.
        return HIDDEN
    return (found[1] or "") + shown_url(found[2])


def _shown_base(base: str) -> str:
    host, slash, path = base.partition("/")
    return (host if _HOST.fullmatch(host) else HIDDEN) + slash + _harmless(path)


def _shown_path(path: str) -> str:
    """Return a path of this machine.

    What is none, and may be an address without its scheme, is not shown up to its host.
    """
    if "@" in path and not path.startswith(("/", "./", "../", "~")):
        return f"{HIDDEN}@{_shown_base(_parted(path.rpartition('@')[2])[0])}"
    if "://" in path or (path.startswith("//") and "@" in path) or _USER_IN_PATH.search(path):
        return HIDDEN
    return _harmless(path, spaces=True)


def _harmless(path: str, *, spaces: bool = False) -> str:
    found = _NOT_IN_PATHS.search(path.replace(" ", "_") if spaces else path)
    shown = path if found is None else path[: found.start()] + HIDDEN
    return shown.partition("%")[0] + HIDDEN if _hides_behind_quotes(shown) else shown


def _hides_behind_quotes(path: str) -> bool:
    """Say whether something in a path would be a secret if it were not quoted, however often."""
    while (read := unquote(path)) != path:
        if _NOT_BEHIND_QUOTES.search(read.replace(" ", "_")):
            return True
        path = read
    return False


def _shown_options(options: str) -> str:
    names = [option.partition("=")[0] for option in re.split("[&;]", options)]
    return "?" + "&".join(f"{name}={HIDDEN}" if name in _OPTIONS else HIDDEN for name in names)

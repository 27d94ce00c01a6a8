"""What gives another result when it is run again: clocks, chance, identities, and the world outside."""

from __future__ import annotations

import ast
import builtins
import datetime
import os
import random
import types
import uuid
from typing import Any, Final

from millpond.compiler.scope import MISSING, Scope

_MODULES: Final = {
    "time": "the clock differs at every run",
    "random": "chance differs at every run",
    "secrets": "chance differs at every run",
    "numpy.random": "chance differs at every run",
}
_FUNCTIONS: Final = {
    builtins.id: "addresses differ at every run",
    builtins.hash: "hashes of text differ between processes",
    builtins.open: "files may have changed when the row is run again",
    builtins.input: "nobody answers on a worker",
    builtins.exec: "the compiler can't see what it does",
    builtins.eval: "the compiler can't see what it does",  # noqa: S307
    builtins.compile: "the compiler can't see what it does",
    builtins.globals: "the compiler can't see what it does",
    builtins.locals: "the compiler can't see what it does",
    builtins.vars: "the compiler can't see what it does",
    builtins.breakpoint: "nobody answers on a worker",
    builtins.__import__: "the compiler can't see what it does",
    os.urandom: "chance differs at every run",
    os.getpid: "processes differ at every run",
    uuid.uuid1: "it is made of the clock",
    uuid.uuid4: "it is made of chance",
}
_CHANCE: Final = random.Random  # noqa: S311
_NOW: Final = frozenset(("now", "today", "utcnow"))


def why_undetermined(node: ast.expr, scope: Scope) -> str:
    """Why a name or an attribute has no place in a method that may be run again, or "" if it has."""
    meaning = scope.resolve(node)
    if meaning is MISSING:
        return ""
    if isinstance(node, ast.Attribute) and node.attr in _NOW:
        owner = scope.resolve(node.value)
        if isinstance(owner, type) and issubclass(owner, datetime.date):
            return "the clock differs at every run"
    if isinstance(meaning, _CHANCE):
        return _MODULES["random"]
    return _of_module(meaning) or _of_function(meaning)


def _of_module(meaning: Any) -> str:
    if isinstance(meaning, types.ModuleType):
        return _MODULES.get(meaning.__name__, "")
    if isinstance(getattr(meaning, "__self__", None), _CHANCE):
        return _MODULES["random"]
    home = getattr(meaning, "__module__", None)
    return _MODULES.get(home, "") if isinstance(home, str) and callable(meaning) else ""


def _of_function(meaning: Any) -> str:
    return next((why for function, why in _FUNCTIONS.items() if meaning is function), "")

"""What a call of a helper gives to its parameters."""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import types
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Source
from millpond.compiler.front.inlining.helpers import Helper
from millpond.compiler.obstacles import Bars
from millpond.errors import ProgramError

_CONSTANTS: Final = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))
_UNCHANGING: Final = (
    *_CONSTANTS,
    range,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
)


@dataclass
class Arguments:
    """The arguments of a call, in the order in which they are evaluated, each with the parameter that it is for.

    Those for `*rest` and `**others` have the parameter None, those for `others` also their name; `defaults` are of
    parameters that the call leaves out.
    """

    given: list[tuple[str | None, str, ast.expr]] = field(default_factory=list)
    defaults: list[tuple[str, Any]] = field(default_factory=list)
    rest: str = ""
    others: str = ""


def match_arguments(call: ast.Call, helper: Helper, source: Source) -> Arguments:
    """Give the arguments of a call to the parameters of a helper, as Python does; `source` is where the call stands."""
    return _Matching(call, helper, source).run()


def is_constant(value: Any) -> bool:
    """Whether a value can be written as a constant."""
    return type(value) in _CONSTANTS


class _Matching:
    def __init__(self, call: ast.Call, helper: Helper, source: Source) -> None:
        self._call = call
        self._helper = helper
        self._source = source
        self._signature = helper.method.tree.args
        own = self._signature.args[1 if helper.self_name else 0 :]
        self._by_place = [argument.arg for argument in (*self._signature.posonlyargs, *own)]
        self._by_name = [argument.arg for argument in (*own, *self._signature.kwonlyargs)]

    def run(self) -> Arguments:
        """Match everything, or refuse the call."""
        rest, others = self._signature.vararg, self._signature.kwarg
        matched = Arguments(rest=rest.arg if rest else "", others=others.arg if others else "")
        for number, argument in enumerate(self._call.args):
            if isinstance(argument, ast.Starred):
                raise self._refuse("`*` in the call", argument)
            if number >= len(self._by_place) and rest is None:
                raise self._refuse(f"{len(self._call.args)} arguments for {len(self._by_place)} parameters", argument)
            matched.given.append((self._by_place[number] if number < len(self._by_place) else None, "", argument))
        for keyword in self._call.keywords:
            matched.given.append(self._named(keyword, {parameter for parameter, _, _ in matched.given}))
        given = {parameter for parameter, _, _ in matched.given}
        matched.defaults = [self._default(name) for name in self._parameters() if name not in given]
        return matched

    def _parameters(self) -> list[str]:
        return list(dict.fromkeys((*self._by_place, *self._by_name)))

    def _named(self, keyword: ast.keyword, given: set[str | None]) -> tuple[str | None, str, ast.expr]:
        if keyword.arg is None:
            raise self._refuse("`**` in the call", keyword.value)
        if keyword.arg in self._by_name:
            if keyword.arg in given:
                raise self._refuse(f"two values for `{keyword.arg}`", keyword.value)
            return keyword.arg, "", keyword.value
        if self._signature.kwarg is None:
            raise self._refuse(f"no parameter that can be named `{keyword.arg}`", keyword.value)
        return None, keyword.arg, keyword.value

    def _default(self, name: str) -> tuple[str, Any]:
        function = self._helper.method.point.function
        assert isinstance(function, types.FunctionType)
        values = function.__defaults__ or ()
        late = dict(zip(self._by_place[::-1], values[::-1], strict=False)) | (function.__kwdefaults__ or {})
        if name not in late:
            raise self._refuse(f"no value for `{name}`", self._call)
        if not _is_unchanging(late[name]):
            raise self._mutable(name, late[name])
        return name, late[name]

    def _refuse(self, found: str, node: ast.AST) -> ProgramError:
        return bar(
            Bars.SIGHT,
            "MP128",
            f"this call does not fit the parameters of `{self._helper.name}`",
            self._source,
            node,
            expected=f"{self._helper.name}({ast.unparse(self._signature)}), each argument written out",
            found=found,
            hint="a helper that touches state is written out where it is called: the compiler must see what goes where",
        )

    def _mutable(self, name: str, value: Any) -> ProgramError:
        tree = self._signature
        last = dict(zip(self._by_place[::-1], tree.defaults[::-1], strict=False))
        named = dict(zip((argument.arg for argument in tree.kwonlyargs), tree.kw_defaults, strict=True))
        return bar(
            Bars.SIGHT,
            "MP129",
            f"the default of `{name}` is one object for all calls, and may be changed",
            self._helper.method.source,
            last.get(name) or named.get(name) or self._helper.method.tree,
            expected="a default that can't be changed: a number, text, None, a tuple of such, ...",
            found=f"{type(value).__name__}: {value!r}"[:80],
            hint=f"write `{name}=None`, and make a new one in the helper if it is None",
        )


def _is_unchanging(value: Any) -> bool:
    if isinstance(value, tuple | frozenset) and type(value) in (tuple, frozenset):
        return all(map(_is_unchanging, value))
    return isinstance(value, type) or type(value) in _UNCHANGING or is_frozen(type(value))

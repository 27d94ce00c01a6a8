"""The types of a method's variables, as far as they are told.

Needs: a `Flat`, the hints of columns and of state.
Leaves: for each variable a type, `UNKNOWN` where nothing is told, and whether it is sure: hints of functions and of
other people's classes are only said. Types are followed through instructions whatever their order.
"""

from __future__ import annotations

import datetime
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from millpond.compiler.analysis.mutability import field_of, is_frozen, without_none
from millpond.compiler.analysis.objs import MADE, Obj
from millpond.compiler.analysis.record_types import fields_of, is_made_of_fields
from millpond.compiler.draft import Method
from millpond.compiler.ir.model import NOTHING, Flat, Instr, Op
from millpond.program import Element
from millpond.program.semantics.epoch_time import moment_of
from millpond.state.codec.classes import UNRESOLVED, is_plain_dataclass
from millpond.state.containers.matrix import Matrix

if TYPE_CHECKING:
    from millpond.compiler.analysis.points_to import PointsTo

UNKNOWN: Final = Any
_NUMBERS: Final = (int, float, bool)
_SCALARS: Final = (*_NUMBERS, str, bytes)
_WHOLE: Final = (list, tuple, set, frozenset, deque)
PAIRED: Final = (dict, OrderedDict, defaultdict)
"""Kinds that have a type of keys and one of values."""
_CONTAINERS: Final = (*_WHOLE, *PAIRED, Counter)
_UNIONS: Final = (Union, types.UnionType)
_FILLED: Final = (list, set, deque, Counter, *PAIRED, Iterator)
_ROUNDS: Final = 12
_ITEMS_MAX: Final = 1_000

_CALLS: Final[Mapping[Any, Any]] = {
    **{kind: kind for kind in (int, float, str, bool, bytes)},
    **dict.fromkeys((len, ord, hash), int),
    **dict.fromkeys((repr, chr, format, ascii), str),
    **dict.fromkeys((any, all, isinstance, callable), bool),
    range: range,
    moment_of: datetime.datetime,
}
_OF_TEXT: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize"), str),
    **dict.fromkeys(("swapcase", "replace", "join", "format", "removeprefix", "removesuffix", "zfill"), str),
    **dict.fromkeys(("center", "ljust", "rjust"), str),
    **dict.fromkeys(("count", "find", "rfind", "index", "rindex"), int),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isalpha", "isalnum", "isspace"), bool),
    **dict.fromkeys(("split", "rsplit", "splitlines"), list[str]),
}
_COMPARES: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in", "not"))
_GROWS: Final = frozenset(("append", "add", "appendleft"))
_OWN_METHODS: Final = _GROWS | {"pop", "clear", "remove", "discard", "sort", "reverse", "index", "count"}
_LOOKERS: Final = (*_WHOLE, len, sorted, sum, min, max, any, all, enumerate, reversed, zip, str, repr)
"""Functions that put nothing into what they are given."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type, None as long as nothing is known; only said if it is not `sure`."""

    hint: Any
    sure: bool = True


_NONE: Final = Type(None)
_ANY: Final = Type(UNKNOWN, sure=False)


class Types:
    """The types of all variables of a flat method; with `points`, what was put into objects is told by these."""

    def __init__(
        self, flat: Flat, method: Method, elements: Mapping[str, Element], points: PointsTo | None = None
    ) -> None:
        self._flat = flat
        self._elements = elements
        self._known: dict[str, Type] = {name: Type(hint) for name, hint in method.point.parameters}
        self._columns = dict(self._known)
        self._shown = frozenset(self._find_shown())
        self._grown: dict[str, list[str]] = {}
        for one in flat.instrs:
            if one.op is Op.ADD or (one.op is Op.METHOD and one.name in _GROWS and len(one.args) == 2):
                self._grown.setdefault(one.args[0], []).append(one.args[1])
        self._contents = None if points is None else points.contents()
        self._escaped = {} if points is None else points.escaped
        self._find_all()

    def of(self, variable: str) -> Any:
        """The type of a variable, UNKNOWN if it is not told."""
        hint = self._known.get(variable, _NONE).hint
        return UNKNOWN if hint is None else hint

    def is_sure(self, variable: str) -> bool:
        """Whether the type is more than said."""
        return self._known.get(variable, _ANY).sure

    def is_plain(self, variable: str) -> bool:
        """Whether a variable holds nothing but values that can't be changed."""
        return is_frozen(self.of(variable))

    def fits(self, variable: str, hint: Any) -> bool:
        """Whether a variable surely holds nothing but values of a type."""
        known = self._known.get(variable, _ANY)
        return known.sure and is_of(known.hint, hint)

    def result_of(self, instrs: Sequence[Instr]) -> Any:
        """The type of what further instructions give, the last one as a whole."""
        found = Types.__new__(Types)
        vars(found).update(vars(self), _known=dict(self._known), _contents=None)
        for one in instrs:
            found._known[one.out] = found._result(one)  # noqa: SLF001
        return found.of(instrs[-1].out) if instrs else UNKNOWN

    # --- all variables

    def _find_all(self) -> None:
        """Let variables be of no type first, and then of what they are bound to, until nothing changes."""
        for _ in range(_ROUNDS):
            before = dict(self._known)
            for name, made in self._flat.definitions.items():
                self._known[name] = self._found(name, made)
            if before == self._known:
                return
        # Some grow for ever, as in `x = [x]`, and others may follow from them.
        self._known = dict.fromkeys(self._flat.definitions, _ANY) | self._columns

    def _found(self, name: str, made: list[int]) -> Type:
        found = [self._columns[name]] if name in self._columns else []
        found += [self._filled(number) for number in made]
        whole = together(found)
        if self._contents is not None:
            return whole
        if get_origin(whole.hint) not in _FILLED or not self._is_own(made):
            return whole
        if name in self._shown:
            return Type(_of(get_origin(whole.hint), UNKNOWN), sure=False)
        items = [Type(part_of(whole.hint, "item")), *(self._type(one) for one in self._grown.get(name, ()))]
        if get_origin(whole.hint) in (*PAIRED, Counter):
            return whole
        item = together(items)
        return Type(_of(get_origin(whole.hint), item.hint), whole.sure and item.sure)

    def _filled(self, number: int) -> Type:
        """The type of what an instruction gives, with all that is put into it if it was made there."""
        one = self._flat.instrs[number]
        whole = self._result(one)
        kind = get_origin(whole.hint)
        if self._contents is None or kind not in _FILLED or not self._is_own([number]) or one.op is Op.COPY:
            return whole
        obj = Obj(MADE, "", number)
        if obj in self._escaped:
            return Type(_of(kind, UNKNOWN), sure=False)
        keys = [Type(get_args(whole.hint)[0])]
        items = [Type(int if kind is Counter else get_args(whole.hint)[-1])]
        for content in self._contents.get(obj, ()):
            value = self._type(content.value)
            items.append(Type(part_of(value.hint, "item"), value.sure) if content.items else value)
            keys += [self._type(content.key)] if content.key else []
        item, key = together(items), together(keys)
        if kind is Counter:
            return Type(_of(kind, key.hint), whole.sure and key.sure and is_of(item.hint, int))
        parts = (key.hint, item.hint) if kind in PAIRED else (item.hint,)
        return Type(_of(kind, *parts), whole.sure and item.sure and (kind not in PAIRED or key.sure))

    def _is_own(self, made: list[int]) -> bool:
        """Whether a container was made by the method itself, so that only what it puts in tells what it holds."""
        for number in made:
            instr = self._flat.instrs[number]
            if instr.op is Op.COPY and "%" in instr.args[0]:
                if self._is_own(self._flat.definitions.get(instr.args[0], [])):
                    return True
            elif instr.op in (Op.MAKE, Op.SLICE) or (instr.op is Op.CALL and instr.meaning in (*_CONTAINERS, sorted)):
                return True
        return False

    def _find_shown(self) -> Iterator[str]:
        """The variables whose containers others may put something into."""
        copied: set[str] = set()
        for one in self._flat.instrs:
            for at, name in enumerate(one.args):
                if one.op is Op.COPY and "%" in name and name not in copied:
                    copied.add(name)
                elif not self._looks(one, at):
                    yield name

    @staticmethod
    def _looks(one: Instr, at: int) -> bool:
        """Whether an instruction puts nothing into an argument, nor lets anybody else do so."""
        match one.op:
            case Op.METHOD:
                return at == 0 and one.name in _OWN_METHODS
            case Op.CALL:
                return one.meaning is not NOTHING and any(one.meaning is known for known in _LOOKERS)
            case Op.ADD:
                return at == 0
            case Op.ITEM | Op.SLICE | Op.SET_ITEM | Op.NEXT | Op.UNPACK:
                return at == 0 and one.op is not Op.SET_ITEM
            case Op.OPERATE | Op.BRANCH | Op.RETURN | Op.STATE | Op.AUGMENT:
                return one.op is not Op.AUGMENT or at == 1
        return False

    def _type(self, variable: str) -> Type:
        if variable in self._known:
            return self._known[variable]
        return _NONE if variable in self._flat.definitions else _ANY

    def _types(self, variables: Sequence[str]) -> list[Type]:
        return [self._type(one) for one in variables]

    # --- one instruction

    def _result(self, one: Instr) -> Type:  # noqa: C901 - one case per kind
        match one.op:
            case Op.CONST:
                return Type(type(one.meaning))
            case Op.OUTER:
                return Type(outer_hint(one.meaning), is_frozen(type(one.meaning)))
            case Op.COPY:
                # What is not true is not what an `or` gives, unless it is the last.
                return self._owner(one.args[0]) if one.name == "or" else self._type(one.args[0])
            case Op.OPERATE:
                return self._operated(one)
            case Op.AUGMENT:
                left, right = self._types(one.args)
                return left if _stays(left.hint, one.name, right) else operated(left, one.name, right)
            case Op.MAKE:
                return self._made(one)
            case Op.ATTRIBUTE:
                owner = self._owner(one.args[0])
                if owner.hint is None or owner.hint is UNKNOWN:
                    return owner
                record = isinstance(owner.hint, type) and (is_dataclass(owner.hint) or hasattr(owner.hint, "_fields"))
                return Type(field_of(owner.hint, one.name), owner.sure and record)
            case Op.ITEM:
                return self._item(one)
            case Op.SLICE:
                return self._owner(one.args[0])
            case Op.NEXT:
                return self._part(one.args[0], "item")
            case Op.UNPACK:
                return self._part(one.args[0], int(one.name))
            case Op.STATE:
                return self._read(one)
            case Op.CALL:
                return self._called(one)
            case Op.METHOD:
                return self._method(one)
        return _ANY

    def _owner(self, variable: str) -> Type:
        """The type of a variable that has parts, or methods: if it is None, that is the end of the row."""
        known = self._type(variable)
        return Type(without_none(known.hint), known.sure)

    def _part(self, variable: str, step: str | int) -> Type:
        whole = self._owner(variable)
        return Type(part_of(whole.hint, step), whole.sure)

    def _item(self, one: Instr) -> Type:
        whole, place = self._owner(one.args[0]), self._type(one.args[1])
        origin = get_origin(whole.hint)
        made = self._flat.definitions.get(one.args[1], [])
        number = self._flat.instrs[made[0]].meaning if len(made) == 1 else None
        if origin is tuple and type(number) is int and place.hint is int:
            return Type(part_of(whole.hint, number), whole.sure)
        if whole.hint is None:
            return _NONE
        if origin in PAIRED or origin is Counter:
            return Type(int if origin is Counter else get_args(whole.hint)[1], whole.sure)
        told = origin in (list, tuple, deque) or whole.hint in (str, bytes, range)
        return Type(part_of(whole.hint, "item"), whole.sure) if told else _ANY

    def _operated(self, one: Instr) -> Type:
        given = self._types(one.args)
        if one.name == "text":
            return Type(str)
        if one.name in _COMPARES:
            # Of objects that say themselves what they are compared with, anything may come.
            sure = one.name in ("is", "is not", "in", "not in", "not") or all(kind.hint in _SCALARS for kind in given)
            return Type(bool, sure)
        if len(given) == 1:
            kind = given[0].hint
            if kind is None:
                return _NONE
            return Type(int if kind is bool else kind, given[0].sure) if kind in _NUMBERS else _ANY
        return operated(given[0], one.name, given[1], self._is_count(one.args[1]))

    def _is_count(self, variable: str) -> bool:
        made = self._flat.definitions.get(variable, [])
        value = self._flat.instrs[made[0]].meaning if len(made) == 1 else None
        return isinstance(value, int) and value >= 0

    def _made(self, one: Instr) -> Type:
        given = self._types(one.args)
        if one.name == "tuple" and not one.stars:
            return Type(types.GenericAlias(tuple, tuple(kind.hint for kind in given)), all(kind.sure for kind in given))
        if one.name == "dict":
            if one.stars:
                return Type(dict[Any, Any], sure=False)
            keys, values = together(given[::2]), together(given[1::2])
            return Type(types.GenericAlias(dict, (keys.hint, values.hint)), keys.sure and values.sure)
        parts = [Type(part_of(k.hint, "item"), k.sure) if at in one.stars else k for at, k in enumerate(given)]
        item = together(parts)
        kind: Any = {"set": set, "tuple": tuple, "generator": Iterator}.get(one.name, list)
        whole = (item.hint, ...) if kind is tuple else (item.hint,)
        return Type(types.GenericAlias(kind, whole), item.sure)

    def _read(self, one: Instr) -> Type:
        """The type of what an access to state gives."""
        assert one.site is not None
        kind = self._elements[one.site.element].type
        if one.name == "__len__":
            return Type(int)
        if one.name in ("__contains__", "is_set"):
            return Type(bool)
        if kind.container is Matrix:
            return Type(kind.arguments[2]) if one.name == "__getitem__" and not one.site.everywhere else _ANY
        if not kind.operations[one.name].shares or one.site.everywhere:
            return _ANY
        value = kind.value_hint
        if one.name in ("__iter__", "values", "items"):
            # A walk gives one value after the other.
            pair = types.GenericAlias(tuple, (kind.key_hint, value))
            return Type(types.GenericAlias(list, (pair if one.name == "items" else value,)))
        if one.name in ("get", "pop", "setdefault"):
            rest = one.args[0 if kind.single else 1 :]
            return self._or_default(Type(value), rest, pops=one.name == "pop")
        return Type(value)

    def _or_default(self, value: Type, rest: Sequence[str], *, pops: bool) -> Type:
        """The type of what is found, or of the default if there is nothing: None, unless that raises."""
        if rest:
            default = self._type(rest[0])
            return value if is_of(default.hint, value.hint) and default.sure else together([value, default])
        return value if pops else together([value, Type(type(None))])

    def _called(self, one: Instr) -> Type:
        meaning = one.meaning
        given = self._types(one.given)
        if meaning is NOTHING:
            return _ANY
        for function, hint in _CALLS.items():
            if meaning is function:
                return Type(hint)
        if meaning is round and given:
            kind = given[0].hint
            whole = len(given) == 1 and kind in _NUMBERS
            return Type(int) if whole else Type(kind, given[0].sure) if kind in (int, float) else _ANY
        if any(meaning is one_of for one_of in (abs, min, max, sum, divmod, pow)) and given:
            return self._chosen(one, given)
        if not one.args and any(meaning is kind for kind in (*PAIRED, Counter)):
            return Type(_of(meaning, *([None, None] if meaning in PAIRED else [None])))
        if any(meaning is kind for kind in (*_WHOLE, sorted)):
            return _copied(list if meaning is sorted else meaning, given)
        if meaning is enumerate and given:
            item = Type(part_of(given[0].hint, "item"), given[0].sure)
            return Type(_of(Iterator, types.GenericAlias(tuple, (int, item.hint))), item.sure)
        if meaning is zip:
            parts = [part_of(kind.hint, "item") for kind in given]
            return Type(_of(Iterator, types.GenericAlias(tuple, tuple(parts))), all(kind.sure for kind in given))
        if meaning is reversed and given:
            return _copied(Iterator, given)
        if isinstance(meaning, type) and is_made_of_fields(meaning):
            return Type(meaning, self._is_filled(one, meaning))
        return Type(returned(meaning), sure=False)

    def _is_filled(self, one: Instr, kind: type) -> bool:
        """Whether what a record is made of fits its fields."""
        hints = fields_of(kind)
        names = [*getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))]
        placed = len(one.args) - len(one.words)
        given = [*zip(names, one.args[:placed], strict=False), *zip(one.words, one.args[placed:], strict=True)]
        if one.stars or placed > len(names):
            return False
        return all(name in hints and self.fits(value, hints[name]) for name, value in given)

    @staticmethod
    def _chosen(one: Instr, given: list[Type]) -> Type:
        if one.meaning is abs:
            return given[0] if given[0].hint in (int, float, None) else _ANY
        if len(one.args) - len(one.words) == 1:
            item = Type(part_of(given[0].hint, "item"), given[0].sure)
            if one.meaning is sum:
                return item if item.hint in (int, None) else Type(item.hint, sure=False)
            return together([item, *given[1:]]) if "default" in one.words else item
        found = together(given)
        return found if is_frozen(found.hint) else _ANY

    def _method(self, one: Instr) -> Type:
        owner, name = self._owner(one.args[0]), one.name
        if owner.hint is None:
            return _NONE
        if owner.hint in (str, bytes):
            return Type(_OF_TEXT.get(name, UNKNOWN), name in _OF_TEXT and owner.hint is str and owner.sure)
        origin, parts = get_origin(owner.hint), get_args(owner.hint)
        if origin is Counter:
            parts = (*parts, int)
        paired = origin in PAIRED or origin is Counter
        if paired and name in ("get", "pop", "setdefault"):
            return self._or_default(Type(parts[1], owner.sure), one.args[2:], pops=name == "pop")
        if paired and name == "items":
            return Type(_of(list, types.GenericAlias(tuple, parts)), owner.sure)
        if paired and name in ("keys", "values"):
            return Type(_of(list, parts[name == "values"]), owner.sure)
        if origin in (list, deque) and name in ("pop", "popleft"):
            return Type(part_of(owner.hint, "item"), owner.sure)
        return Type(owner.hint, owner.sure) if name == "copy" and origin in _CONTAINERS else _ANY


def outer_hint(value: Any) -> Any:
    """The type of an object of the module, with that of its items if they are few and of one type."""
    kind = type(value)
    if kind is dict and 0 < len(value) <= _ITEMS_MAX:
        keys, held = {type(key) for key in value}, {outer_hint(part) for part in value.values()}
        return types.GenericAlias(dict, (keys.pop(), held.pop())) if len(keys) == len(held) == 1 else UNKNOWN
    if kind in (list, set, frozenset) and 0 < len(value) <= _ITEMS_MAX:
        held = {outer_hint(part) for part in value}
        return types.GenericAlias(kind, (held.pop(),)) if len(held) == 1 else UNKNOWN
    known = is_frozen(kind) or is_dataclass(kind) or hasattr(kind, "_fields")
    return kind if known and not isinstance(value, type) else UNKNOWN


def walked_freely(hint: Any) -> bool:
    """Whether values of a type can be walked through any number of times: no iterators, no objects of unknown type."""
    kinds = get_args(hint) if get_origin(hint) in _UNIONS else (hint,)
    return all(is_frozen(kind) or (get_origin(kind) or kind) in _CONTAINERS for kind in kinds)


def _of(kind: Any, *parts: Any) -> Any:
    return types.GenericAlias(kind, parts if kind not in PAIRED or len(parts) == 2 else (UNKNOWN, UNKNOWN))


def _copied(kind: Any, given: list[Type]) -> Type:
    item = Type(part_of(given[0].hint, "item"), given[0].sure) if given else Type(None)
    return Type(types.GenericAlias(kind, (item.hint, ...) if kind is tuple else (item.hint,)), item.sure)


def together(found: Sequence[Type]) -> Type:
    """One type for what may be of several."""
    return Type(joined([kind.hint for kind in found]) if found else None, all(kind.sure for kind in found))


def joined(hints: list[Any]) -> Any:
    """One hint for what may be of several."""
    told = [hint for hint in hints if hint is not None]
    every = [part for hint in told for part in (get_args(hint) if get_origin(hint) in _UNIONS else (hint,))]
    if UNKNOWN in every:
        return UNKNOWN
    alike: dict[Any, list[Any]] = {}
    for hint in dict.fromkeys(every):
        kind = get_origin(hint)
        alike.setdefault(kind if kind in _FILLED else hint, []).append(hint)
    different = [same[0] if len(same) == 1 else _of_parts(kind, same) for kind, same in alike.items()]
    if not different:
        return None
    return different[0] if len(different) == 1 else Union[tuple(different)]  # noqa: UP007


def _of_parts(kind: Any, alike: list[Any]) -> Any:
    """One hint for containers of one kind."""
    parts = zip(*map(get_args, alike), strict=True)
    return types.GenericAlias(kind, tuple(joined(list(part)) for part in parts))


def part_of(hint: Any, step: str | int) -> Any:
    """The type of a part of a value: "item" is what walking gives, a number the place in a tuple."""
    if hint is None:
        return None
    arguments = get_args(hint)
    if hint in (str, bytes, range):
        return str if hint is str else int
    if get_origin(hint) is tuple and Ellipsis not in arguments:
        if step == "item":
            return joined(list(arguments)) if arguments else UNKNOWN
        return arguments[step] if isinstance(step, int) and -len(arguments) <= step < len(arguments) else UNKNOWN
    return arguments[0] if get_origin(hint) in (*_CONTAINERS, Iterator) and arguments else UNKNOWN


def is_of(found: Any, hint: Any) -> bool:
    """Whether all values of one type are of another; of nothing that is known yet, anything may become."""
    if found is None or found == hint or (found is type(None) and hint is None):
        return True
    if get_origin(found) in _UNIONS:
        return all(is_of(part, hint) for part in get_args(found))
    if get_origin(hint) in _UNIONS:
        return any(is_of(found, part) for part in get_args(hint))
    kind, parts, wanted = get_origin(found), get_args(found), get_args(hint)
    if kind is None or kind is not get_origin(hint):
        return False
    if kind is tuple and len(wanted) == 2 and wanted[1] is Ellipsis:
        return all(is_of(part, wanted[0]) for part in parts if part is not Ellipsis)
    return len(parts) == len(wanted) and all(map(is_of, parts, wanted))


def _stays(left: Any, sign: str, right: Type) -> bool:
    """Whether what is added in place leaves a container of its type."""
    grows = get_origin(left) in (list, set) and right.sure and is_of(right.hint, left)
    return grows and sign in ("+", "|", "-", "&", "^")


def operated(left: Type, sign: str, right: Type, count: bool = False) -> Type:
    """The type of what an operator makes of two values."""
    sure = left.sure and right.sure
    one, other = left.hint, right.hint
    if one is None or other is None:
        return _NONE
    if one is str and (sign == "%" or (sign == "+" and other is str) or (sign == "*" and other is int)):
        return Type(str, sure)
    if one in _NUMBERS and other in _NUMBERS:
        whole = float if float in (one, other) else int
        if sign in ("+", "-", "*", "//", "%"):
            return Type(whole, sure)
        if sign == "/":
            return Type(float, sure)
        if sign == "**" and whole is int:
            return Type(int, sure and count)
        if sign in ("&", "|", "^", "<<", ">>") and whole is int:
            return Type(bool if one is other is bool else int, sure)
    if is_frozen(one) and is_frozen(other):
        # What operators make of values that can't be changed can't be changed either.
        return Type(one, sure=False)
    same = (get_origin(one) or one) in _CONTAINERS and one == other
    return Type(one, sure and get_origin(one) is list and sign == "+") if same else _ANY


def returned(function: Any) -> Any:
    """The declared type of what a function returns, UNKNOWN if it does not tell."""
    function = getattr(function, "__func__", function)
    if isinstance(function, type) and (is_frozen(function) or _makes_itself(function)):
        return function
    if not isinstance(function, types.FunctionType):
        return UNKNOWN
    try:
        return get_type_hints(function).get("return", UNKNOWN)
    except UNRESOLVED:
        return UNKNOWN


def _makes_itself(kind: type) -> bool:
    """Whether a class, when it is called, gives an object of itself and nothing else."""
    making: Any = kind.__new__
    return is_plain_dataclass(kind) and making is object.__new__ and type(kind) is type

"""Records of the user's classes between tasks: they come back as they were, and no code of theirs runs."""

from __future__ import annotations

import collections
import enum
import functools
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import msgspec
import pytest

from millpond.errors import RowError, StateError
from millpond.state.codec import classes
from millpond.state.codec.classes import learn_from
from millpond.state.codec.wire import decode_values, encode_values

T = TypeVar("T")
RAN: list[str] = []


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796 - an alias
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)

    def __post_init__(self):
        RAN.append("post_init")
        self.double = 2 * self.x

    def __setattr__(self, name, value):
        RAN.append(name)
        object.__setattr__(self, name, value)

    @functools.cached_property
    def text(self):
        return str(self.x)


@dataclass(frozen=True, slots=True)
class Line:
    start: Point
    colour: Colour


@dataclass(frozen=True)
class Wide(Line):
    """Slots from its base, and a dict of its own."""

    width: float


@dataclass
class Box(Generic[T]):
    inside: T


@dataclass
class Node:
    value: int
    after: Node | None


class Pair(NamedTuple):
    one: int
    other: list[int]


Old = collections.namedtuple("Old", "a b")  # noqa: PYI024


class Record(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parts: list[int]


RECORDS = [
    Colour.RED,
    Colour.CRIMSON,
    Colour.BLUE,
    Size.SMALL,
    Rights.READ | Rights.WRITE,
    Rights(0),
    Point(1, ["a"]),
    Line(Point(1), Colour.RED),
    Wide(Point(1), Colour.BLUE, 2.5),
    Box([Box(1)]),
    Node(1, Node(2, None)),
    Pair(1, [2]),
    Old(1, Pair(2, [])),
    Record(name="a", parts=[1]),
    {Colour.RED: Pair(1, [])},
    {Size.SMALL},
]


@pytest.mark.parametrize("value", RECORDS, ids=lambda value: type(value).__name__)
def test_a_record_is_after_a_cut_what_it_was_before_it(value):
    back, nested = decode_values(encode_values((value, [value])))
    assert (type(back), back, repr(back)) == (type(value), value, repr(value))
    assert type(nested[0]) is type(value)


def test_members_of_an_enum_stay_the_same_objects():
    assert decode_values(encode_values((Colour.RED, Colour.CRIMSON))) == [Colour.RED, Colour.RED]
    assert decode_values(encode_values((Colour.BLUE,)))[0] is Colour.BLUE


def test_attributes_that_are_no_fields_travel_too():
    point = Point(4)
    assert point.text == "4"
    point.late = [1]
    (back,) = decode_values(encode_values((point,)))
    assert vars(back) == {"x": 4, "tags": [], "double": 8, "text": "4", "late": [1]}


def test_no_code_of_a_class_runs_when_it_arrives():
    data = encode_values((Point(1),))
    RAN.clear()
    decode_values(data)
    assert RAN == []


class Loud(msgspec.Struct):
    x: int

    def __post_init__(self):
        RAN.append("loud")


@dataclass
class Words(dict):  # type: ignore[type-arg]
    """More than its fields: it is a dict as well."""

    x: int = 1


class Odd(enum.Flag):
    A = 1
    B = 2

    @classmethod
    def _missing_(cls, value):
        RAN.append("missing")
        return super()._missing_(value)


def half_made():
    point = Point(1)
    del point.x
    return point


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [Loud(1), Words(), Odd.A | Odd.B, half_made(), Text("a"), Colour, Point])
def test_what_could_not_come_back_without_running_code_is_refused(value):
    with pytest.raises(RowError) as caught:
        encode_values((value,))
    assert caught.value.code == "MP601"


def test_a_class_of_a_function_is_known_to_the_process_that_sent_it():
    @dataclass
    class Local:
        x: int

    assert decode_values(encode_values((Local(3),))) == [Local(3)]


def forget(*kinds):
    for kind in kinds:
        classes._known.pop((kind.__module__, kind.__qualname__), None)


def test_a_class_that_nobody_named_is_refused():
    @dataclass
    class Local:
        x: int

    data = encode_values((Local(3),))
    forget(Local)
    with pytest.raises(StateError) as caught:
        decode_values(data)
    assert caught.value.code == "MP230"


def test_classes_of_hints_and_code_are_learnt_all_the_way_down():
    @dataclass
    class Inner:
        x: int

    @dataclass
    class Outer:
        inner: list[Inner]

    Outer.__annotations__["inner"] = list[Inner]

    class Kind(enum.Enum):
        A = 1

    def helper():
        return Kind.A

    def made():
        return helper()

    data = encode_values((Outer([Inner(1)]), Kind.A))
    forget(Inner, Outer, Kind)
    learn_from(dict[str, Outer | None], made)
    assert decode_values(data) == [Outer([Inner(1)]), Kind.A]


def test_only_records_are_found_by_name():
    for name in ("subprocess.Popen", "os.system", "builtins.eval", "tests.nowhere.Thing", "pathlib.Path"):
        module, _, member = name.rpartition(".")
        with pytest.raises(StateError):
            classes.find_class(module, member)


def test_looking_up_a_class_runs_no_hook_of_a_module_and_imports_nothing(tmp_path):
    code = """
        import sys, types
        from millpond.errors import StateError
        from millpond.state.codec.classes import find_class
        hooked = types.ModuleType("hooked")
        hooked.__getattr__ = lambda name: sys.exit("the hook ran")
        sys.modules["hooked"] = hooked
        for name in ("hooked", "wsgiref.simple_server"):
            try:
                find_class(name, "Thing")
            except StateError as error:
                print(error.code)
        print("wsgiref" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["MP230", "MP230", "False"]


def test_another_definition_of_a_class_is_told():
    def with_fields(*names):
        return dataclass(type("Changing", (), {"__annotations__": dict.fromkeys(names, int)}))

    data = encode_values((with_fields("x")(x=1),))
    learn_from(with_fields("x", "y"))
    with pytest.raises(StateError) as caught:
        decode_values(data)
    assert caught.value.code == "MP231"
    learn_from(enum.Enum("Changing", "A"))
    with pytest.raises(StateError):
        decode_values(data)


def test_an_enum_that_lost_a_member_is_told():
    data = encode_values((enum.Enum("Shrinking", "A B", module=__name__)["B"],))
    learn_from(enum.Enum("Shrinking", "A", module=__name__))
    with pytest.raises(StateError) as caught:
        decode_values(data)
    assert caught.value.code == "MP231"


def test_a_class_that_gained_or_lost_its_slots_still_fits():
    def made(slots):
        kind = type("Slotted", (), {"__annotations__": {"x": int}})
        return dataclass(slots=slots)(kind)

    for before, after in ((True, False), (False, True)):
        data = encode_values((made(before)(x=1),))
        learn_from(made(after))
        assert decode_values(data)[0].x == 1

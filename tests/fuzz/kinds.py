"""What random programs may do with state: a table of element types, with ways to read and to change each.

In a template, `<s>` is the element, `<k>` its key in this method, `<c>` a small whole number, `<name>` a variable that
holds a whole number, `<bounded>` a number whose sums stay small, and any type name an expression of that type;
`<fresh>` is a short list that nobody else holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """A declared type, the type of its key, and templates: reads with the type of their result, and changes."""

    declared: str
    key: str
    reads: tuple[tuple[str, str], ...]
    writes: tuple[str, ...]
    weight: int = 2
    by: str = ""
    merge: str = ""
    asks: tuple[tuple[str, str], ...] = ()

    @property
    def partial(self) -> bool:
        """Whether its instances diverge and are merged."""
        return bool(self.merge)


def _scalar_map(key: str, value: str, *, default: str, weight: int = 2) -> Kind:
    return Kind(
        f"Map[{key}, {value}]",
        key,
        reads=(
            (value, f"<s>.get(<k>, <{value}>)"),
            (value, f"<s>.get(<k>, {default})"),
            ("bool", "(<k> in <s>)"),
            (value, f"(<s>[<k>] if <k> in <s> else <{value}>)"),
            (value, f"<s>.pop(<k>, <{value}>)"),
            (value, f"<s>.setdefault(<k>, <{value}>)"),
        ),
        writes=(
            f"<s>[<k>] = <{value}>",
            f"<s>[<k>] = <{value}> + <s>.get(<k>, {default})" if value != "str" else "<s>[<k>] = (<str> + 'z')[:9]",
            f"<s>.setdefault(<k>, <{value}>)",
            f"if <k> in <s>:\n    <s>[<k>] += <{value}>" if value != "str" else "<s>[<k>] = <s>.get(<k>, '')[-3:]",
            "if <k> in <s>:\n    del <s>[<k>]",
            "<s>.pop(<k>, None)",
        ),
        weight=weight,
    )


def _counter(key: str, weight: int = 2) -> Kind:
    return Kind(
        f"Counter[{key}]",
        key,
        reads=(("int", "<s>[<k>]"), ("int", "<s>.get(<k>, <int>)"), ("bool", "(<k> in <s>)")),
        writes=("<s>[<k>] += 1", "<s>[<k>] += <int>", "<s>[<k>] -= <int>", "<s>[<k>] = <int>", "<s>.pop(<k>, None)"),
        weight=weight,
    )


def _set(key: str) -> Kind:
    return Kind(
        f"Set[{key}]",
        key,
        reads=(("bool", "(<k> in <s>)"), ("bool", "(<k> not in <s>)")),
        writes=("<s>.add(<k>)", "<s>.add(<k>)", "<s>.discard(<k>)", "if <k> in <s>:\n    <s>.remove(<k>)"),
    )


def _matrix(by: str) -> Kind:
    cell = "<k>, <c>" if by == "row" else "<c>, <k>"
    return Kind(
        "Matrix[int, int, int]",
        "int",
        reads=(
            ("int", f"<s>[{cell}]"),
            ("int", f"len(<s>.{by}(<k>))"),
            ("int", f"sum(<s>.{by}(<k>).values())"),
            ("list[int]", f"sorted(<s>.{by}(<k>))"),
            ("bool", f"(({cell}) in <s>)"),
        ),
        writes=(f"<s>[{cell}] += <int>", f"<s>[{cell}] = <int>", f"<s>[{cell}] += 1"),
        by=by,
    )


_LISTS: Final = Kind(
    "Map[int, list[int]]",
    "int",
    reads=(
        ("list[int]", "list(<s>.get(<k>, []))"),
        ("int", "len(<s>.get(<k>, []))"),
        ("int", "sum(<s>.get(<k>, []))"),
        ("int", "(<s>[<k>][-1] if <s>.get(<k>) else <int>)"),
        ("list[int]", "<s>.pop(<k>, [])"),
        ("list[int]", "[part + 1 for part in <s>.get(<k>, [])]"),
        ("bool", "(<int> in <s>.get(<k>, []))"),
    ),
    writes=(
        "<s>.setdefault(<k>, []).append(<int>)",
        "<s>[<k>] = <fresh>",
        "<s>.setdefault(<k>, []).extend(<fresh>)",
        "if <k> in <s>:\n    <s>[<k>].append(<int>)\n    <s>[<k>].sort()",
        "if <k> in <s>:\n    <s>[<k>] += [<int>]",
        "if <s>.get(<k>):\n    <s>[<k>][0] = <int>",
        "if len(<s>.get(<k>, [])) > 3:\n    del <s>[<k>][0]",
        "<s>[<k>] = (<fresh> + <s>.get(<k>, []))[:4]",
    ),
    weight=4,
)
_PAIRS: Final = Kind(
    "Map[int, tuple[int, int]]",
    "int",
    reads=(
        ("tuple[int, int]", "<s>.get(<k>, <tuple[int, int]>)"),
        ("int", "<s>.get(<k>, (0, 1))[1]"),
        ("int", "sum(<s>.get(<k>, (2, 0)))"),
    ),
    writes=("<s>[<k>] = <tuple[int, int]>", "<s>[<k>] = (<int>, <s>.get(<k>, (0, 0))[0])"),
)
_POINTS: Final = Kind(
    "Map[int, Point]",
    "int",
    reads=(
        ("int", "(<s>[<k>].x if <k> in <s> else <int>)"),
        ("int", "<s>.get(<k>, Point(<int>, 1)).y"),
        ("int", "<s>.get(<k>, Point(3, 1)).total()"),
    ),
    writes=(
        "<s>[<k>] = Point(<int>, <int>)",
        "<s>.setdefault(<k>, Point(0, <int>)).x += 1",
        "if <k> in <s>:\n    <s>[<k>].y = <int>",
        "if <k> in <s>:\n    <s>[<k>].x += <s>[<k>].y",
    ),
)
_DICTS: Final = Kind(
    "Map[str, dict[str, int]]",
    "str",
    reads=(
        ("dict[str, int]", "dict(<s>.get(<k>, {}))"),
        ("int", "<s>.get(<k>, {}).get(<str>, <int>)"),
        ("int", "sum(<s>.get(<k>, {}).values())"),
        ("int", "len(<s>.get(<k>, {}))"),
    ),
    writes=(
        "<s>.setdefault(<k>, {})[<str>] = <int>",
        "<s>[<k>] = {<str>: <int>}",
        "<s>.setdefault(<k>, {}).pop(<str>, None)",
        "if <k> in <s>:\n    <s>[<k>].update({<str>: <int>})",
    ),
)
_VECTOR: Final = Kind(
    "Vector[int]",
    "int",
    reads=(("float", "<s>[<k>]"), ("float", "<s>.get(<k>, <float>)"), ("bool", "(<s>[<k>] > <float>)")),
    writes=("<s>[<k>] += <float>", "<s>[<k>] = <float>", "<s>[<k>] *= 0.5", "<s>.pop(<k>, None)"),
)
_VALUES: Final = (
    Kind(
        "Value[int]",
        "",
        reads=(("int", "<s>.get(<int>)"), ("int", "<s>.get(0)"), ("bool", "<s>.is_set()")),
        writes=("<s>.set(<int>)", "<s>.set(<int> + <s>.get(0))", "<s>.clear()"),
    ),
    Kind(
        "Value[list[int]]",
        "",
        reads=(("list[int]", "list(<s>.get([]))"), ("int", "len(<s>.get([]))")),
        writes=("<s>.set(<fresh>)", "if <s>.is_set():\n    <s>.get([]).append(<int>)", "<s>.set(<s>.get([])[-3:])"),
        weight=1,
    ),
    Kind(
        "List[int]",
        "",
        reads=(
            ("int", "len(<s>)"),
            ("int", "(<s>[-1] if len(<s>) else <int>)"),
            ("int", "sum(<s>)"),
            ("list[int]", "list(<s>)"),
        ),
        writes=(
            "<s>.append(<int>)",
            "<s>.append(<int>)",
            "<s>.extend(<fresh>)",
            "if len(<s>):\n    <s>[0] = <int>",
            "if len(<s>) > 5:\n    <s>.clear()",
        ),
    ),
    Kind(
        "List[str]",
        "",
        reads=(("int", "len(<s>)"), ("str", "(<s>[0] if len(<s>) else <str>)"), ("str", "'-'.join(list(<s>))[-8:]")),
        writes=("<s>.append(<str>)", "<s>.append(<str>)"),
        weight=1,
    ),
)

PARTITIONED: Final[tuple[Kind, ...]] = (
    _scalar_map("int", "int", default="0", weight=7),
    _scalar_map("str", "int", default="1", weight=3),
    _scalar_map("int", "str", default="'x'"),
    _scalar_map("int", "float", default="0.5"),
    _scalar_map("tuple[int, int]", "int", default="0"),
    _scalar_map("bool", "int", default="4", weight=1),
    _counter("int", weight=5),
    _counter("str", weight=4),
    _counter("tuple[int, str]", weight=1),
    _set("int"),
    _set("str"),
    _matrix("row"),
    _matrix("column"),
    _LISTS,
    _PAIRS,
    _POINTS,
    _DICTS,
    _VECTOR,
    *_VALUES,
)
"""Elements that are split by key, or have one owner."""

PARTIAL: Final[tuple[Kind, ...]] = (
    Kind(
        "Counter[int]",
        "",
        reads=(),
        writes=("<s>[<c>] += 1", "<s>[<name>] += <bounded>", "<s>[<c>] -= <bounded>"),
        merge="sum",
        asks=(("int", "merged(each(<s>).get(<name>, 0), sum)"),),
        weight=3,
    ),
    Kind(
        "Counter[str]",
        "",
        reads=(),
        writes=("<s>[<str>] += 1", "<s>[str(<c>)] += <bounded>"),
        merge="sum",
        asks=(("int", "merged(each(<s>).get(<str>, 0), sum)"),),
    ),
    Kind(
        "Map[int, int]",
        "",
        reads=(),
        writes=("<s>[<name>] = max(<int>, <s>.get(<name>, -1))", "<s>[3] = max(<int>, <s>.get(3, -1))"),
        merge="max",
        asks=(("int", "merged(each(<s>).get(<name>, -1), max)"), ("int", "merged(each(<s>).get(3, -1), largest)")),
        weight=3,
    ),
    Kind(
        "Map[int, int]",
        "",
        reads=(),
        writes=("<s>[<name>] = <s>.get(<name>, 0) + <bounded>", "<s>[2] = <bounded> + <s>.get(2, 0)"),
        merge="sum",
        asks=(("int", "merged(each(<s>).get(<name>, 0), sum)"),),
    ),
    Kind(
        "Matrix[int, int, int]",
        "",
        reads=(),
        writes=("<s>[<c>, <c>] += 1", "<s>[<name>, <c>] += <bounded>"),
        merge="sum",
        asks=(("list[int]", "sorted(merged(each(<s>).row(<name>), add_vectors))"),),
        weight=1,
    ),
)
"""Elements whose instances diverge: changed only in ways that their merge makes equal to one instance."""

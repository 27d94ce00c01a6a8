"""Initial state: what is loaded is what plain Python holds after the same assignments, once, or nothing at all."""

from __future__ import annotations

import dataclasses
import datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, each, entry, merged
from millpond.checkpoint.read.entries import entries
from millpond.checkpoint.read.history import History
from millpond.engine.arrowtypes import to_arrow
from millpond.engine.local_state.initialstate import load_columns
from millpond.engine.simulated import Simulated
from millpond.errors import MillpondError
from millpond.keygroups import Layout
from millpond.storage.backends.files import FileStorage
from tests.fuzz import oracle
from tests.programs.keyed import committed_state
from tests.sizes import compile_once, some_of


@dataclasses.dataclass
class Item:
    name: str
    price: float


class Everything(Program):
    by_int = Partitioned(Map[int, str])
    by_text = Partitioned(Map[str, Item])
    by_pair = Partitioned(Map[tuple[str, int], list[int]])
    by_day = Partitioned(Map[datetime.date, int | None])
    counts = Partitioned(Counter[str])
    members = Partitioned(Set[int])
    weights = Partitioned(Vector[int])
    grid = Partitioned(Matrix[int, str, float])
    log = Partitioned(List[str])
    one = Partitioned(Value[int])
    model = Partial(Map[str, float])

    @entry
    def add(self, key: int, text: str) -> str:
        before = self.by_int.get(key, "")
        self.by_int[key] = before + text
        return before

    @entry
    def weight(self, key: str) -> float:
        return merged(each(self.model).get(key, 0.0), sum)


PROGRAM = compile_once(Everything)
INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=5)
FLOATS = st.floats(allow_nan=False)
DICTS = {
    "by_int": st.dictionaries(INTS, TEXTS, max_size=30),
    "by_text": st.dictionaries(TEXTS, st.builds(Item, TEXTS, FLOATS), max_size=30),
    "by_pair": st.dictionaries(st.tuples(TEXTS, INTS), st.lists(INTS, max_size=3), max_size=30),
    "by_day": st.dictionaries(st.dates(), st.none() | INTS, max_size=30),
    "counts": st.dictionaries(TEXTS, INTS, max_size=30),
    "members": st.dictionaries(INTS, st.none(), max_size=30),
    "weights": st.dictionaries(INTS, FLOATS, max_size=30),
    "grid": st.dictionaries(INTS, st.dictionaries(TEXTS, FLOATS, max_size=4), max_size=20),
    "log": st.lists(TEXTS, max_size=20).map(lambda texts: dict(enumerate(texts))),
    "one": st.none() | INTS,
}


def table_of(name, held):
    """The rows of a load, in some other order than that of their keys."""
    columns = dict(load_columns(PROGRAM.elements[name]))
    pairs = [((), held)] if name == "one" else list(held.items())[::-1]
    arrays = {}
    if "key" in columns:
        arrays["key"] = to_arrow([key for key, _ in pairs], columns["key"])
    if "value" in columns:
        arrays["value"] = to_arrow([value for _, value in pairs], columns["value"])
    return pa.table(arrays)


def assign(plain, name, held):
    container = getattr(plain, name)
    if name == "one":
        container.set(held)
    elif name == "members":
        for member in held:
            container.add(member)
    elif name == "log":
        container.extend(held.values())
    elif name == "grid":
        for row, cells in held.items():
            for column, value in cells.items():
                container[row, column] = value
    else:
        for key, value in held.items():
            container[key] = value


@settings(
    max_examples=some_of(15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.fixed_dictionaries({}, optional=DICTS))
def test_what_is_loaded_is_what_plain_python_holds(tmp_path_factory, loads):
    folder = tmp_path_factory.mktemp("load")
    simulated = Simulated(PROGRAM, folder, 3, key_groups=16, instances=4)
    plain = Everything()
    for name, held in loads.items():
        if held is not None:
            simulated.load(name, table_of(name, held))
            assign(plain, name, held)
    layout = Layout(16, 3, 4, aligned=True)
    held = committed_state(folder / "checkpoint")
    assert oracle.committed_state(PROGRAM.elements, held) == oracle.plain_state(plain, layout)
    head = History(FileStorage(folder / "checkpoint")).point().manifest
    if head is not None:
        assert head.counters["total.entries"] == len(held)


ROWS = pa.table({"key": [3, 1, 2], "value": ["c", "a", "b"]})


@pytest.fixture
def fresh(tmp_path):
    return Simulated(PROGRAM, tmp_path, 2, key_groups=16, instances=4)


def told(simulated):
    """Replies in the order of their rows."""
    return [reply for _, reply in sorted(simulated.replies().items())]


def epochs(folder):
    return History(FileStorage(folder / "checkpoint")).epochs


def test_rows_go_on_from_what_was_loaded(fresh):
    fresh.load("by_int", ROWS)
    fresh.epoch([("add", (1, "x")), ("add", (9, "y")), ("add", (1, "z"))])
    assert told(fresh) == ["a", "", "ax"]


def test_a_load_is_done_once_whoever_asks_again(fresh, tmp_path):
    fresh.load("by_int", ROWS)
    fresh.load("by_int", ROWS)
    again = Simulated(PROGRAM, tmp_path, 3)
    again.load("by_int", pa.table({"key": [7], "value": ["other"]}))
    again.epoch([("add", (1, "x"))])
    again.load("by_int", ROWS)
    assert epochs(tmp_path) == (1, 2)
    assert told(again) == ["a"]


def refused(simulated, folder, code, element, rows, **options):
    before = epochs(folder)
    with pytest.raises(MillpondError) as caught:
        simulated.load(element, rows, **options)
    assert caught.value.code == code
    assert epochs(folder) == before
    return str(caught.value)


def test_a_late_load_needs_a_name_and_an_empty_element(fresh, tmp_path):
    fresh.epoch([("add", (1, "x"))])
    counts = pa.table({"key": ["a"], "value": [3]})
    refused(fresh, tmp_path, "MP446", "counts", counts)
    fresh.load("counts", counts, name="backfill")
    refused(fresh, tmp_path, "MP448", "by_int", ROWS, name="more")
    refused(fresh, tmp_path, "MP448", "counts", counts, name="again")
    fresh.load("counts", counts, name="backfill")
    assert epochs(tmp_path) == (1, 2)


@pytest.mark.parametrize(
    ("element", "rows", "code", "told"),
    [
        ("by_int", pa.table({"key": [1, None], "value": ["a", "b"]}), "MP272", "1 nulls"),
        ("by_int", pa.table({"key": [1, 2], "value": ["a", None]}), "MP272", "`value`"),
        ("by_int", pa.table({"key": [1, 2, 1], "value": ["a", "b", "a"]}), "MP273", "1 rows too many"),
        ("counts", pa.table({"key": ["x", "x"], "value": [1, 2]}), "MP273", "x"),
        ("one", pa.table({"value": [1, 2]}), "MP273", "one row"),
        ("log", pa.table({"key": [0, 2], "value": ["a", "b"]}), "MP275", "0 to 1"),
        ("by_int", pa.table({"key": ["one"], "value": ["a"]}), "MP274", "int"),
        ("nothing", ROWS, "MP270", "by_int"),
        ("model", pa.table({"key": ["a"], "value": [0.5]}), "MP270", 'into="first"'),
    ],
)
def test_bad_rows_are_told_and_nothing_is_loaded(fresh, tmp_path, element, rows, code, told):
    assert told in refused(fresh, tmp_path, code, element, rows)


def test_instances_are_for_partial_state(fresh, tmp_path):
    refused(fresh, tmp_path, "MP270", "by_int", ROWS, into="all")
    refused(fresh, tmp_path, "MP270", "model", ROWS, into="some")


@pytest.mark.parametrize(("into", "wanted"), [("first", 0.5), ("all", 2.0)])
def test_partial_state_is_loaded_into_one_instance_or_into_all(fresh, tmp_path, into, wanted):
    fresh.load("model", pa.table({"key": ["b", "a"], "value": [1.5, 0.5]}), into=into)
    fresh.epoch([("weight", ("a",))])
    assert told(fresh) == [wanted]
    history = History(FileStorage(tmp_path / "checkpoint"))
    found = {(one.instance, one.key): one.value for one in entries(history, history.point(), "model")}
    instances = range(4) if into == "all" else range(1)
    assert found == {(i, key): value for i in instances for key, value in (("a", 0.5), ("b", 1.5))}


def test_loaded_entries_live_from_the_load_on(tmp_path):
    class Fading(Program):
        seen = Partitioned(Map[int, str], ttl=datetime.timedelta(hours=1))

        @entry
        def ask(self, key: int) -> str:
            return self.seen.get(key, "gone")

    simulated = Simulated(compile_once(Fading), tmp_path)
    simulated.load("seen", ROWS)
    simulated.epoch([("ask", (1,)), ("ask", (8,))])
    assert told(simulated) == ["a", "gone"]


def test_a_new_element_of_a_changed_program_is_filled_by_a_named_load(fresh, tmp_path):
    fresh.epoch([("add", (1, "x"))])

    class Wider(Everything):
        extra = Partitioned(Map[int, int])

    wider = Simulated(compile_once(Wider), tmp_path, 2)
    wider.load("extra", pa.table({"key": [5, 4], "value": [50, 40]}), name="backfill")
    history = History(FileStorage(tmp_path / "checkpoint"))
    assert {one.key: one.value for one in entries(history, history.point(), "extra")} == {4: 40, 5: 50}


def test_a_line_of_a_matrix_without_cells_is_none(fresh, tmp_path):
    kind = pa.map_(pa.string(), pa.float64())
    fresh.load("grid", pa.table({"key": [1, 2], "value": pa.array([[], [("a", 1.0)]], kind)}))
    assert len(committed_state(tmp_path / "checkpoint")) == 1

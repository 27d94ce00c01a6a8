"""Programs that change between two starts: state is what plain Python makes of it, or the start is refused."""

from __future__ import annotations

import dataclasses
import datetime
import shutil

import msgspec
import pytest

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, entry
from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.read.entries import Kind, check_feed, diff, entries
from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import elements_of
from millpond.checkpoint.records.offers import BoundedRun
from millpond.checkpoint.snapshots import snapshots
from millpond.engine import driver, schema
from millpond.engine.local_state import rescaling
from millpond.engine.simulated import Simulated
from millpond.errors import MillpondError
from millpond.state.changes import Changes
from millpond.storage.backends.files import FileStorage
from tests.programs.keyed import committed_state
from tests.sizes import compile_once


def base(**elements):
    """A program with these elements, and an entry point that does nothing."""

    class Idle(Program):
        @entry
        def nothing(self, x: int) -> int:
            return x

    dropped = elements.pop("dropped", ())
    return compile_once(type(Program)("Changing", (Idle,), elements, dropped=dropped))


@dataclasses.dataclass
class Item:
    name: str
    price: int


@dataclasses.dataclass
class Priced:
    name: str
    cost: float
    tags: list[str] = dataclasses.field(default_factory=list)


class Shop(Program):
    carts = Partitioned(Map[int, Item])
    seen = Partitioned(Counter[str])
    log = Partitioned(List[int])
    last = Partitioned(Value[int])
    grid = Partitioned(Matrix[int, int, int])
    marks = Partial(Map[str, int])

    @entry
    def put(self, user: int, name: str, price: int) -> None:
        self.carts[user] = Item(name, price)

    @entry
    def see(self, name: str) -> None:
        self.seen[name] += 1

    @entry
    def note(self, n: int) -> None:
        self.log.append(n)

    @entry
    def keep(self, n: int) -> None:
        self.last.set(n)

    @entry
    def cell(self, row: int, column: int, n: int) -> None:
        self.grid[row, column] = n

    @entry
    def mark(self, name: str, n: int) -> None:
        self.marks[name] = n


ROWS = [
    *[("put", (user, f"thing {user}", user * 3)) for user in range(40)],
    *[("see", (f"name {n % 7}",)) for n in range(30)],
    *[("note", (n * n,)) for n in range(12)],
    ("keep", (5,)),
    *[("cell", (n % 4, n % 5, n)) for n in range(20)],
    *[("mark", (f"m{n}", n)) for n in range(20)],
]


def kept(**others):
    """The elements of Shop, with others in place of some of them."""
    same = {
        "carts": Partitioned(Map[int, Item]),
        "seen": Partitioned(Counter[str]),
        "log": Partitioned(List[int]),
        "last": Partitioned(Value[int]),
        "grid": Partitioned(Matrix[int, int, int]),
        "marks": Partial(Map[str, int]),
    }
    chosen = {**same, **others}
    return base(**{name: element for name, element in chosen.items() if element is not None})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    Simulated(compile_once(Shop), folder, key_groups=16, instances=4).epoch(ROWS)
    return folder


@pytest.fixture
def shop(made, tmp_path):
    """A copy of a checkpoint with state of all kinds."""
    shutil.copytree(made / "checkpoint", tmp_path / "checkpoint")
    return tmp_path


def contents(folder, name, epoch=None):
    """The entries of an element as a reader sees them, by instance and key."""
    history = History(FileStorage(folder / "checkpoint"))
    found = entries(history, history.point(epoch), name)
    return {(one.instance, one.key): one.value for one in found}


def start(folder, program, **options):
    return Simulated(program, folder, 3, **options)


def refused(folder, program):
    """Start, expect a coded error, and that nothing was committed."""
    before = committed_state(folder / "checkpoint")
    with pytest.raises(MillpondError) as caught:
        start(folder, program)
    assert committed_state(folder / "checkpoint") == before
    assert History(FileStorage(folder / "checkpoint")).epochs == (1,)
    return caught.value


def by_key(folder, name):
    return {key: value for (_, key), value in contents(folder, name).items()}


ITEMS = {user: {"name": f"thing {user}", "price": user * 3} for user in range(40)}


def test_the_same_program_takes_no_epoch(shop):
    start(shop, kept())
    assert History(FileStorage(shop / "checkpoint")).epochs == (1,)


def test_another_order_of_declaration_takes_no_epoch(shop):
    same = {"marks": Partial(Map[str, int]), "grid": Partitioned(Matrix[int, int, int])}
    elements = {**same, "last": Partitioned(Value[int]), "log": Partitioned(List[int])}
    start(shop, base(**elements, seen=Partitioned(Counter[str]), carts=Partitioned(Map[int, Item])))
    assert History(FileStorage(shop / "checkpoint")).epochs == (1,)


def test_a_record_gets_fields_other_names_and_wider_numbers(shop):
    start(shop, kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"})))
    wanted = {user: {"name": f"thing {user}", "cost": user * 3.0, "tags": []} for user in range(40)}
    assert by_key(shop, "carts") == wanted


def test_it_is_brought_over_once(shop):
    program = kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"}))
    start(shop, program)
    start(shop, program)
    assert History(FileStorage(shop / "checkpoint")).epochs == (1, 2)


def test_a_type_that_only_gets_wider_changes_no_byte(shop):
    before = committed_state(shop / "checkpoint")
    start(shop, kept(carts=Partitioned(Map[int, Item | None]), last=Partitioned(Value[int | str])))
    assert committed_state(shop / "checkpoint") == before
    assert History(FileStorage(shop / "checkpoint")).epochs == (1, 2)


def test_numbers_of_a_matrix_of_a_list_and_of_partial_state_get_wider(shop):
    elements = {
        "grid": Partitioned(Matrix[int, int, float]),
        "log": Partitioned(List[float]),
        "marks": Partial(Map[str, float]),
    }
    before = {name: contents(shop, name) for name in elements}
    start(shop, kept(**elements))
    for name in ("log", "marks"):
        assert contents(shop, name) == {key: float(value) for key, value in before[name].items()}
    cells = {key: {at: float(n) for at, n in row.items()} for key, row in before["grid"].items()}
    assert contents(shop, "grid") == cells
    assert all(type(value) is float for value in contents(shop, "log").values())


def test_a_renamed_element_keeps_its_entries_and_its_place(shop):
    before = committed_state(shop / "checkpoint")
    start(shop, kept(carts=None, baskets=Partitioned(Map[int, Item], was="carts")))
    assert committed_state(shop / "checkpoint") == before
    assert by_key(shop, "baskets") == ITEMS


def test_a_dropped_element_is_gone_and_a_new_one_never_meets_its_entries(shop):
    start(shop, kept(carts=None, dropped=("carts",)))
    assert not any(key[0] == 0 for key in committed_state(shop / "checkpoint"))
    start(shop, kept(carts=None, fresh=Partitioned(Map[int, str])))
    history = History(FileStorage(shop / "checkpoint"))
    assert history.point().elements[0].name == "fresh"
    assert contents(shop, "fresh") == {}
    assert by_key_at(shop, "carts", 1) == ITEMS


def by_key_at(folder, name, epoch):
    return {key: value for (_, key), value in contents(folder, name, epoch).items()}


def test_a_drop_and_a_new_element_at_once_use_two_places(shop):
    start(shop, kept(carts=None, fresh=Partitioned(Map[int, str]), dropped=("carts",)))
    elements = History(FileStorage(shop / "checkpoint")).point().elements
    assert elements[0] is None
    assert elements[-1].name == "fresh"


def test_rows_after_an_evolution_meet_the_state_as_plain_python_does(shop):
    class Next(Program):
        marks = Partial(Map[str, int])
        log = Partitioned(List[int])
        last = Partitioned(Value[int])
        grid = Partitioned(Matrix[int, int, int])
        extra = Partitioned(Counter[int])
        baskets = Partitioned(Map[int, Priced], was="carts", renamed={"price": "cost"})
        seen = Partitioned(Counter[str])

        @entry
        def raise_cost(self, user: int, by: float) -> float:
            item = self.baskets[user]
            item.cost += by
            item.tags.append("raised")
            self.extra[user] += 1
            return item.cost

    plain = Next()
    for user in range(40):
        plain.baskets[user] = Priced(f"thing {user}", user * 3.0)
    rows = [("raise_cost", (n % 40, n / 2)) for n in range(90)]
    running = start(shop, compile_once(Next), adopt=True)
    first = running.fed
    running.epoch(rows)
    wanted = [plain.raise_cost(*arguments) for _, arguments in rows]
    assert [running.replies()[first + at] for at in range(len(rows))] == wanted
    assert by_key(shop, "baskets") == {user: dataclasses.asdict(item) for user, item in plain.baskets.items()}
    assert by_key(shop, "extra") == dict(plain.extra.items())


def double(old: Item) -> int:
    return old.price * 2


def plainly(old):
    return f"{old['name']}: {old['price']}"


def swap(key, old):
    return None if key % 5 == 0 else (old["name"], key)


def as_count(key: int, old: Item) -> tuple[int, int]:
    return key, old.price


@pytest.mark.parametrize(
    ("element", "wanted"),
    [
        (Partitioned(Map[int, int], migrate=double), {user: user * 6 for user in range(40)}),
        (Partitioned(Map[int, str], migrate=plainly), {user: f"thing {user}: {user * 3}" for user in range(40)}),
        (Partitioned(Map[str, int], migrate=swap), {f"thing {user}": user for user in range(40) if user % 5}),
        (Partitioned(Counter[int], migrate=as_count), {user: user * 3 for user in range(40)}),
        (
            Partitioned(Vector[int], migrate=lambda key, old: (key, float(old["price"]))),
            {u: u * 3.0 for u in range(40)},
        ),
        (Partitioned(Set[str], migrate=lambda key, old: (old["name"], None)), {f"thing {u}": None for u in range(40)}),
        (
            Partitioned(List[str], migrate=lambda key, old: (39 - key, old["name"])),
            {39 - u: f"thing {u}" for u in range(40)},
        ),
        (Partitioned(Value[int], migrate=lambda key, old: ((), key) if key == 7 else None), {(): 7}),
    ],
)
def test_a_function_brings_values_or_whole_entries_over(shop, element, wanted):
    element.name = ""
    start(shop, kept(carts=element))
    assert by_key(shop, "carts") == wanted


def test_partial_state_is_brought_over_instance_by_instance(shop):
    before = contents(shop, "marks")
    start(shop, kept(marks=Partial(Map[int, str], migrate=lambda key, old: (int(key[1:]), key))))
    assert contents(shop, "marks") == {(i, int(key[1:])): key for i, key in before}


def fail(old):
    raise ValueError(old)


def wrong_type(old: int) -> str:
    return str(old)


@pytest.mark.parametrize(
    ("others", "code", "told"),
    [
        ({"carts": Partitioned(Map[int, str])}, "MP441", "Item"),
        ({"carts": None}, "MP441", 'dropped=("carts",)'),
        ({"carts": Partitioned(Map[str, Item])}, "MP441", "a function of key and value"),
        ({"seen": Partitioned(Map[str, int])}, "MP441", "kind"),
        ({"seen": Partial(Counter[str])}, "MP441", "load the element anew"),
        ({"marks": Partitioned(Map[str, int])}, "MP441", "load the element anew"),
        ({"grid": Partitioned(Matrix[int, int, int], by="column")}, "MP441", "load the element anew"),
        ({"last": Partitioned(Value[bool])}, "MP441", "int"),
        (
            {
                "carts": None,
                "a": Partitioned(Map[int, Item], was="carts"),
                "b": Partitioned(Map[int, Item], was="carts"),
            },
            "MP441",
            "two elements were `carts`",
        ),
        ({"carts": Partitioned(Map[int, str], migrate=fail)}, "MP263", "for key int: "),
        ({"carts": Partitioned(Map[int, str], migrate=lambda old: 5)}, "MP263", "str"),
        ({"carts": Partitioned(Map[int, str], migrate=wrong_type)}, "MP266", "Item"),
        ({"carts": Partitioned(Map[str, int], migrate=lambda key, old: ("one", 1))}, "MP265", "one"),
        ({"carts": Partitioned(Map[str, int], migrate=lambda key, old: key)}, "MP263", "(key, value)"),
        ({"carts": Partitioned(List[int], migrate=lambda key, old: (key + 1, key))}, "MP263", "position 0"),
    ],
)
def test_what_can_not_be_brought_over_is_refused_and_changes_nothing(shop, others, code, told):
    for element in others.values():
        if element is not None:
            element.name = ""
    error = refused(shop, kept(**others))
    assert error.code == code
    assert told in str(error)


def test_a_number_without_an_equal_float_is_told_with_its_key(tmp_path):
    running = Simulated(compile_once(Shop), tmp_path, key_groups=16, instances=4)
    running.epoch([("mark", ("small", 3)), ("mark", ("large", 2**53 + 1))])
    error = refused(tmp_path, kept(marks=Partial(Map[str, float])))
    assert error.code == "MP262"
    assert "large" in str(error)
    assert str(2**53 + 1) in str(error)


def test_all_that_is_wrong_is_told_at_once_with_both_sides(shop):
    text = str(refused(shop, kept(carts=Partitioned(Map[int, str]), last=Partitioned(Value[str]))))
    lines = [line.strip() for line in text.splitlines()]
    assert "checkpoint  Item" in lines
    assert "program     str" in lines
    assert lines.index("carts") < lines.index("last")


def test_older_epochs_are_read_with_their_own_types(shop):
    start(shop, kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"}), seen=None, dropped=("seen",)))
    assert by_key_at(shop, "carts", 1) == ITEMS
    assert len(by_key_at(shop, "seen", 1)) == 7
    history = History(FileStorage(shop / "checkpoint"))
    with pytest.raises(MillpondError) as caught:
        history.element("seen", history.point(2))
    assert caught.value.code == "MP240"
    first, last = history.point(1), history.point(2)
    changes = list(diff(history, first, last, "carts"))
    assert {change.kind for change in changes} == {Kind.CHANGED}
    assert changes[0].old.keys() != changes[0].new.keys()
    assert {change.kind for change in diff(history, first, last, "seen")} == {Kind.REMOVED}
    assert list(diff(history, first, last, "log")) == []


def test_a_feed_of_changes_stops_at_an_evolution(shop):
    start(shop, kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"})))
    history = History(FileStorage(shop / "checkpoint"))
    with pytest.raises(MillpondError) as caught:
        check_feed(history, history.point(1), history.point(2), "carts")
    assert caught.value.code == "MP447"
    check_feed(history, history.point(1), history.point(2), "log")
    check_feed(history, history.point(2), history.point(2), "carts")


@pytest.mark.parametrize("forget", [(), (1,)])
def test_a_checkpoint_is_whole_after_evolutions_also_if_older_manifests_are_gone(shop, forget):
    moved = Partitioned(Map[str, int], migrate=swap)
    start(shop, kept(carts=moved, seen=None, dropped=("seen",)))
    start(shop, kept(carts=None, seen=None, other=Partitioned(Map[str, float], was="carts")))
    for epoch in forget:
        (shop / "checkpoint" / "manifests" / f"{epoch:010}").unlink()
    findings = verify(FileStorage(shop / "checkpoint"), everything=True)
    assert [problem.error.code for problem in findings.problems] == ["MP457"] * len(forget)


def test_a_snapshot_after_an_evolution_holds_the_new_state(shop, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 1)
    program = kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"}), seen=None, dropped=("seen",))
    running = start(shop, program, adopt=True)
    before = committed_state(shop / "checkpoint")
    for n in range(6):
        running.epoch([("nothing", (n,))])
    assert committed_state(shop / "checkpoint") == before


def test_state_can_go_there_and_back(shop):
    before = committed_state(shop / "checkpoint")
    there = kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"}))
    back = kept(carts=Partitioned(Map[int, Item], migrate=lambda old: Item(old["name"], int(old["cost"]))))
    start(shop, there)
    start(shop, back)
    assert committed_state(shop / "checkpoint") == before
    head = History(FileStorage(shop / "checkpoint")).point().manifest
    assert head.elements is None
    assert head.evolved == 3


def test_the_counters_tell_how_many_entries_there_are(shop):
    start(shop, kept(carts=None, dropped=("carts",)))
    head = History(FileStorage(shop / "checkpoint")).point().manifest
    assert head.counters["total.entries"] == len(committed_state(shop / "checkpoint"))


def test_a_checkpoint_that_knows_only_the_name_of_a_class_goes_on_and_can_be_migrated(tmp_path, monkeypatch):
    bare = schema.element_schemas

    def as_before(program):
        return tuple(msgspec.structs.replace(element, shape=None) for element in bare(program))

    monkeypatch.setattr(driver, "element_schemas", as_before)
    monkeypatch.setattr(rescaling, "element_schemas", as_before)
    Simulated(compile_once(Shop), tmp_path, key_groups=16, instances=4).epoch(ROWS)
    monkeypatch.undo()
    start(tmp_path, kept())
    assert History(FileStorage(tmp_path / "checkpoint")).epochs == (1,)
    assert refused(tmp_path, kept(carts=Partitioned(Map[int, Priced]))).code == "MP441"
    program = kept(carts=Partitioned(Map[int, Item], migrate=lambda old: Item(old["name"], old["price"] + 1)))
    start(tmp_path, program)
    start(tmp_path, program)
    assert History(FileStorage(tmp_path / "checkpoint")).epochs == (1, 2)
    assert by_key(tmp_path, "carts")[3]["price"] == 10


class Looping(Program):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, n: int) -> None:
        while n > 0:
            self.a[n] = n
            self.b[n] = n
            n -= 1


def test_state_is_not_changed_below_messages_that_are_left(tmp_path):
    running = Simulated(compile_once(Looping), tmp_path, steps_max=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running._driver, "_finish", lambda moment: None)
        running.epoch([("go", (9,))])
    assert History(FileStorage(tmp_path / "checkpoint")).point().manifest.pending
    with pytest.raises(MillpondError) as caught:
        Simulated(base(a=Partitioned(Map[int, float]), b=Partitioned(Map[int, int])), tmp_path)
    assert caught.value.code == "MP444"


def test_a_time_to_live_stays_with_values_that_change(tmp_path):
    class Before(Program):
        carts = Partitioned(Map[int, Item], ttl=datetime.timedelta(days=1))

        @entry
        def put(self, user: int, name: str, price: int) -> None:
            self.carts[user] = Item(name, price)

    Simulated(compile_once(Before), tmp_path).epoch(ROWS[:5])
    ttl = datetime.timedelta(days=1)
    start(tmp_path, base(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"}, ttl=ttl)))
    start(tmp_path, base(carts=Partitioned(Map[int, int], migrate=lambda old: int(old["cost"]), ttl=ttl)))
    stored = by_key(tmp_path, "carts")
    assert {key: value[1] for key, value in stored.items()} == {user: user * 3 for user in range(5)}


def test_elements_of_a_manifest_are_those_of_its_epoch(shop):
    start(shop, kept(carts=None, baskets=Partitioned(Map[int, Item], was="carts")))
    history = History(FileStorage(shop / "checkpoint"))
    names = [[element.name for element in elements_of(history.genesis, history.manifest(n)[0])] for n in (1, 2)]
    assert [name[0] for name in names] == ["carts", "baskets"]


@pytest.mark.parametrize(
    "options",
    [
        {"was": ""},
        {"was": 3},
        {"renamed": ["a"]},
        {"renamed": {"a": 1}},
        {"renamed": {"": "b"}},
        {"migrate": "f"},
        {"migrate": lambda: 1},
        {"migrate": lambda a, b, c: 1},
    ],
)
def test_a_declaration_that_is_not_of_its_form_is_refused(options):
    with pytest.raises(MillpondError) as caught:
        Partitioned(Map[int, int], **options)
    assert caught.value.code == "MP260"


@pytest.mark.parametrize("dropped", ["carts", (3,), ("",), ("kept",)])
def test_only_names_of_elements_that_are_no_more_can_be_dropped(dropped):
    with pytest.raises(MillpondError) as caught:
        base(kept=Partitioned(Map[int, int]), dropped=dropped)
    assert caught.value.code == "MP261"


def test_a_type_serves_as_a_function_of_one_value(shop):
    start(shop, kept(last=Partitioned(Value[str], migrate=str)))
    assert by_key(shop, "last") == {(): "5"}


def test_a_stored_value_of_another_type_than_noted_is_told_with_its_key(shop):
    storage = FileStorage(shop / "checkpoint")
    checkpoint = Checkpoint.open(storage, schema.element_schemas(kept()))
    key = next(key for key in committed_state(shop / "checkpoint") if key[0] == 0)
    damage = Changed(Changes([key], [msgspec.msgpack.encode("no item")]))
    offer = BoundedRun("damage")
    checkpoint.run_epoch(offer, lambda _: EpochWork((damage,), (), {}), lambda _: None, partitions=1)
    with pytest.raises(MillpondError) as caught:
        start(shop, kept(carts=Partitioned(Map[int, Priced], renamed={"price": "cost"})))
    assert caught.value.code == "MP264"
    assert "for key int: " in str(caught.value)


def test_a_driver_whose_elements_another_one_changed_stops(shop):
    sleeper = start(shop, kept(), adopt=True)
    start(shop, kept(carts=None, dropped=("carts",)))
    with pytest.raises(MillpondError) as caught:
        sleeper.epoch([("nothing", (1,))])
    assert caught.value.code == "MP408"
    late = start(shop, kept(carts=None), adopt=True)
    before = late._driver._plan
    late._driver._plan = dataclasses.replace(before, elements=before.elements[:2])
    with pytest.raises(MillpondError) as caught:
        late.epoch([("nothing", (1,))])
    assert caught.value.code == "MP445"

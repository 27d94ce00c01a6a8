"""kill -9 at every point there is, on every kind of storage in files, then a start with other settings (R5, R6).

A story is work that goes on from whatever it finds; what must have come of it is known without the checkpoint. Each
process of a story draws how many partitions it has, what it keeps and how often it takes snapshots.
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

import pytest

from millpond.crashpoints import IN_EPOCHS, IN_PARTS, IN_SINKS, IN_TIDYING
from millpond.crashpoints import POINTS as ALL_POINTS
from millpond.storage.door import through
from tests.children import in_child
from tests.crash.stories import driven, programs
from tests.crash.stories.place import BACKENDS, Place, UnsyncedDoor, make_small
from tests.programs.keyed import fresh_seed, say

FILES = ("file.staged", "file.linked")
LOG = (
    *("record.synced", "record.deleted", "logfile.begun", "logfile.rotated", "logfile.emptied", "logfile.unlinked"),
    *("witness.written", "index.staged", "index.named", "index.replaced"),
)
SPREAD = ("spread.identified", "spread.marked", "spread.remembered")
TASKS = (
    "delta.written",
    "output.staged",
    "publish.file",
    "publish.given",
    "store.advanced",
    "task.started",
    "task.finished",
)
NEAR = ("unsynced.written", "unsynced.kept", "unsynced.replaced", "unsynced.forgotten")

STORIES = {
    "tidying": driven.Tidying,
    "forking": driven.Forking,
    "repairing": driven.Repairing,
    "elsewhere": driven.Elsewhere,
    "running": programs.Running,
    "replaying": programs.Replaying,
    "losing": programs.LosingSome,
}

PASSED = {
    "tidying": (*(point for point in IN_EPOCHS if point not in TASKS), *IN_TIDYING),
    "forking": ("savepoint.named", "fork.copied", "fork.begun", "fork.held", "fork.based"),
    "repairing": (
        "repair.copied",
        "repair.removed",
        "repair.replaced",
        "repair.set_aside",
        "repair.unnoted",
        "repair.went_back",
    ),
    "elsewhere": ("snapshot.asked",),
    "running": (*TASKS, "store.begun", "store.caught_up", "store.dropped", "scratch.filled"),
    "replaying": ("input.logged", "replay.computed"),
    "losing": ("save.written", "loss.reported", *NEAR),
}
"""What each story passes at least once, whatever it draws, beside what its storage does."""

STORED = {"files": FILES, "perkey": FILES, "log": LOG, "spread": (*FILES, *SPREAD)}


@dataclass(frozen=True)
class Case:
    """A death in a story."""

    story: str
    backend: str
    point: str

    def __str__(self):
        return f"{self.story}-{self.backend}-{self.point}"


def every_case():
    for story, points in PASSED.items():
        for backend in BACKENDS:
            for point in (*points, *(STORED[backend] if story == "tidying" else ())):
                if backend == "spread" and point in {"fork.held", "fork.based"}:
                    # A fork that reads from its base is refused there.
                    continue
                yield Case(story, backend, point)


POINTS = tuple(point for point in ALL_POINTS if point not in {*IN_SINKS, *IN_PARTS})
"""Those in sinks need servers: tests/contract/test_sink_kills.py visits them; those between the parts of an epoch that
is cut around few rows are visited by tests/unit/engine/sequence/test_cutting.py."""

CASES = tuple(every_case())


def one_each():
    """Each point of each story on one kind of storage, another one from point to point; a few of them in any run."""
    by_point = {}
    for case in CASES:
        by_point.setdefault((case.story, case.point), []).append(case)
    chosen = [cases[POINTS.index(point) % len(cases)] for (_, point), cases in by_point.items()]
    return [pytest.param(case, marks=() if not at % 8 else pytest.mark.slow) for at, case in enumerate(chosen)]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    make_small(monkeypatch)
    with through(UnsyncedDoor()):
        yield


def begin(story, backend, folder):
    folder.mkdir(exist_ok=True)
    place, told = Place(folder, backend), STORIES[story]()
    assert in_child(lambda: told.prepare(place)) == 0
    return told, place


def go_on(told, place, seed, crash_at):
    """One process of a story; how it ended."""
    ended = in_child(lambda: told.go_on(place, random.Random(seed)), crash_at)
    assert ended in (-signal.SIGKILL, 0), crash_at
    told.check(place)
    return ended


def finish(told, place, seed):
    def to_the_end():
        told.go_on(place, random.Random(seed))
        told.check_end(place)

    assert in_child(to_the_end) == 0


def kill(case, folder, occurrence):
    told, place = begin(case.story, case.backend, folder)
    ended = go_on(told, place, f"{case} first", f"{case.point}:{occurrence}")
    assert ended == -signal.SIGKILL or occurrence > 1, "the point was not passed"
    finish(told, place, f"{case} then")


def test_the_stories_pass_every_point_there_is():
    assert {case.point for case in CASES} == set(POINTS)
    assert {one.values[0].point for one in one_each()} == set(POINTS)
    assert len(POINTS) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_a_story_that_nobody_ends_comes_to_its_end(tmp_path, story):
    told, place = begin(story, BACKENDS[list(STORIES).index(story) % len(BACKENDS)], tmp_path)
    finish(told, place, 1)


@pytest.mark.parametrize("case", one_each(), ids=str)
def test_a_process_killed_at_any_point_is_followed_by_one_that_finishes(tmp_path, case):
    kill(case, tmp_path, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("occurrence", [1, 2, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_process_killed_at_any_point_of_any_storage_is_followed_by_one_that_finishes(tmp_path, case, occurrence):
    kill(case, tmp_path, occurrence)


def kill_in_a_row(folder, story, backend, rng):
    """Two or three processes, each killed while it recovers from the death of the one before."""
    told, place = begin(story, backend, folder)
    points = [case.point for case in CASES if (case.story, case.backend) == (story, backend)]
    points += STORED[backend]
    for _ in range(rng.choice((2, 3))):
        crash_at = f"{rng.choice(points)}:{rng.choice((1, 1, 2, 5))}"
        say(story, backend, crash_at)
        go_on(told, place, rng.random(), crash_at)
    finish(told, place, rng.random())


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_processes_killed_one_after_the_other_lose_nothing(tmp_path, story):
    rng = random.Random(fresh_seed())
    kill_in_a_row(tmp_path, story, rng.choice(BACKENDS), rng)


@pytest.mark.campaign
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("story", STORIES)
def test_many_processes_killed_one_after_the_other_lose_nothing(tmp_path, story, backend):
    rng = random.Random(fresh_seed())
    for number in range(30):
        kill_in_a_row(tmp_path / str(number), story, backend, rng)

"""Taxi rides, fares, page views and payments, after the first examples that stream engines publish."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import math
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from millpond import Counter, List, Map, Partitioned, Program, Set, entry

UTC = dt.UTC


@dataclass(frozen=True)
class Ride:
    ride_id: int
    driver: int
    start: bool
    at: dt.datetime
    lon: float
    lat: float


@dataclass(frozen=True)
class Fare:
    ride_id: int
    tip: float
    tolls: float
    total: float


class RidesAndFares(Program):
    """The enrichment exercise: a ride waits for its fare, a fare for its ride; whoever comes second emits the pair."""

    rides = Partitioned(Map[int, Ride])
    fares = Partitioned(Map[int, Fare])

    @entry
    def on_ride(self, ride: Ride) -> str | None:
        if not ride.start:
            return None
        if fare := self.fares.pop(ride.ride_id, None):
            return f"{ride.ride_id}: driver {ride.driver} got {fare.total:.2f}"
        self.rides[ride.ride_id] = ride
        return None

    @entry
    def on_fare(self, fare: Fare) -> str | None:
        ride = self.rides.pop(fare.ride_id, None)
        if ride is None:
            self.fares[fare.ride_id] = fare
            return None
        return f"{fare.ride_id}: driver {ride.driver} got {fare.total:.2f}"


def in_city(lon: float, lat: float) -> bool:
    return -74.05 <= lon <= -73.7 and 40.5 <= lat <= 41.0


class Cell(NamedTuple):
    x: int
    y: int

    @classmethod
    def of(cls, lon: float, lat: float, size: float = 0.01) -> Cell:
        return cls(math.floor(lon / size), math.floor(lat / size))


class PopularPlaces(Program):
    """Where rides begin and end, by a cell of the grid and an hour."""

    counts = Partitioned(Map[tuple[Cell, int], int])
    popular = Partitioned(Set[Cell])

    @entry
    def on_ride(self, ride: Ride, *, threshold: int = 2) -> bool:
        if not in_city(ride.lon, ride.lat):
            return False
        cell = Cell.of(ride.lon, ride.lat)
        key = (cell, ride.at.hour)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] >= threshold:
            self.popular.add(cell)
            return True
        return False

    @entry
    def places(self) -> list[tuple[int, int]]:
        return sorted((cell.x, cell.y) for cell in self.popular)


class LongRides(Program):
    """Alerts for rides of more than two hours, found when the end comes, or when somebody asks."""

    started = Partitioned(Map[int, dt.datetime])
    ended_first = Partitioned(Map[int, dt.datetime])
    alerts = Partitioned(List[int])

    LIMIT = dt.timedelta(hours=2)

    def _is_long(self, begin: dt.datetime, end: dt.datetime) -> bool:
        return end - begin > self.LIMIT

    @entry
    def on_event(self, ride: Ride) -> str:
        match ride:
            case Ride(ride_id=ride_id, start=True, at=at) if ride_id in self.ended_first:
                end = self.ended_first.pop(ride_id)
                if self._is_long(at, end):
                    self.alerts.append(ride_id)
                    return "long"
                return "done"
            case Ride(start=True):
                self.started[ride.ride_id] = ride.at
                return "started"
            case Ride(ride_id=ride_id) if (begin := self.started.pop(ride_id, None)) is not None:
                if self._is_long(begin, ride.at):
                    self.alerts.append(ride_id)
                    return "long"
                return "done"
            case _:
                self.ended_first[ride.ride_id] = ride.at
                return "end first"

    @entry
    def overdue(self, at: dt.datetime) -> list[int]:
        return sorted(ride for ride, begin in self.started.items() if at - begin > self.LIMIT)


class HourlyTips(Program):
    """The driver with the most tips of each hour."""

    tips = Partitioned(Map[int, defaultdict[int, float]])
    best = Partitioned(Map[int, tuple[float, int]])

    @entry
    def on_fare(self, driver: int, at: dt.datetime, tip: float) -> tuple[int, float]:
        hour = int(at.timestamp()) // 3600
        by_driver = self.tips.setdefault(hour, defaultdict(float))
        by_driver[driver] += tip
        best, who = max((total, driver) for driver, total in by_driver.items())
        self.best[hour] = (best, who)
        return who, best


WORD = re.compile(r"[a-z']+")


def words_of(line: str) -> list[str]:
    return WORD.findall(line.lower())


class WordCount(Program):
    """The first program of them all, with the counts that change as replies."""

    counts = Partitioned(Counter[str])

    @entry
    def line(self, text: str) -> Iterator[tuple[str, int]]:
        for word in words_of(text):
            self.counts[word] += 1
            yield word, self.counts[word]

    @entry
    def top(self, n: int = 3) -> list[tuple[str, int]]:
        return self.counts.most_common(n)


@dataclass
class Profile:
    region: str
    interests: list[str] = field(default_factory=list)


class PageViewsByRegion(Program):
    """A stream of views, joined to a table of profiles, counted by region."""

    profiles = Partitioned(Map[str, Profile])
    views = Partitioned(Counter[str])

    @entry
    def profile(self, user: str, region: str, interests: list[str] | None = None) -> None:
        known = self.profiles.get(user)
        self.profiles[user] = Profile(region, interests or (known.interests if known else []))

    @entry
    def view(self, user: str, page: str) -> int:
        who = self.profiles.get(user)
        region = who.region if who else "UNKNOWN"
        self.views[region] += 1
        return self.views[region]


class AnomalyDetection(Program):
    """Users with three clicks or more inside a minute."""

    clicks = Partitioned(Map[str, deque[dt.datetime]])

    @entry
    def click(self, user: str, at: dt.datetime) -> str | None:
        seen = self.clicks.setdefault(user, deque(maxlen=10))
        seen.append(at)
        while seen and at - seen[0] >= dt.timedelta(minutes=1):
            seen.popleft()
        return f"{user}: {len(seen)} clicks" if len(seen) >= 3 else None


class Withdrawal(NamedTuple):
    account: str
    amount: int
    place: str


class TransactionPattern(Program):
    """A small amount and then a large one, at one account: the fraud pattern of a well known walkthrough."""

    SMALL = 1_00
    LARGE = 500_00

    flagged = Partitioned(Map[str, bool])
    alerts = Partitioned(Map[str, list[str]])

    @entry
    def process(self, account: str, amount: int, place: str = "web") -> bool:
        withdrawal = Withdrawal(account, amount, place)
        alarm = False
        if self.flagged.get(account) is not None:
            if withdrawal.amount > self.LARGE:
                self.alerts.setdefault(account, []).append(f"{amount / 100:.2f} at {place}")
                alarm = True
            del self.flagged[account]
        if withdrawal.amount < self.SMALL:
            self.flagged[account] = True
        return alarm


class Level(enum.IntEnum):
    OK = 0
    WARN = 1
    FAIL = 2


class Thermostats(Program):
    """Readings of many sensors: the last five by sensor, the level of each room, rooms by level."""

    last = Partitioned(Map[str, deque[float]])
    rooms = Partitioned(Map[str, dict[str, Level]])
    levels = Partitioned(Map[Level, set[str]])

    @staticmethod
    def level_of(values: deque[float]) -> Level:
        mean = sum(values) / len(values)
        if mean > 90:
            return Level.FAIL
        return Level.WARN if mean > 70 else Level.OK

    @entry
    def reading(self, room: str, sensor: str, degrees: float) -> str:
        values = self.last.setdefault(sensor, deque(maxlen=5))
        values.append(degrees)
        sensors = self.rooms.setdefault(room, {})
        before = max(sensors.values(), default=Level.OK)
        sensors[sensor] = self.level_of(values)
        now = max(sensors.values())
        if now != before:
            self.levels.setdefault(before, set()).discard(room)
        self.levels.setdefault(now, set()).add(room)
        return f"{room} {now.name}"

    @entry
    def failing(self) -> list[str]:
        return sorted(self.levels.get(Level.FAIL, set()))


class Sessions(Program):
    """Clicks of a user that lie less than 30 minutes apart are one session; closed ones are counted."""

    GAP = dt.timedelta(minutes=30)

    open = Partitioned(Map[str, tuple[dt.datetime, dt.datetime, int]])
    lengths = Partitioned(Map[str, list[int]])

    @entry
    def click(self, user: str, at: dt.datetime) -> Iterator[str]:
        session = self.open.get(user)
        if session is not None:
            first, last, count = session
            if at - last <= self.GAP:
                self.open[user] = (first, max(last, at), count + 1)
                return
            minutes = int((last - first).total_seconds() // 60)
            self.lengths.setdefault(user, []).append(minutes)
            yield f"{user}: {count} clicks in {minutes} min"
        self.open[user] = (at, at, 1)

    @entry
    def longest(self) -> list[tuple[str, int]]:
        return [(user, max(minutes)) for user, minutes in self.lengths.items() if minutes]


Segment = tuple[int, int, int]


@dataclass
class Car:
    segment: tuple[int, int, int] = (0, 0, 0)
    position: int = -1
    stopped: int = 0
    balance: int = 0


class LinearRoad(Program):
    """Tolls and accidents of an expressway: four reports from one place are a stop, two stops an accident."""

    cars = Partitioned(Map[int, Car])
    speeds = Partitioned(Map[Segment, list[int]])
    stopped = Partitioned(Map[tuple[int, int], set[int]])

    def _toll(self, segment: Segment) -> int:
        speeds = self.speeds.get(segment, [])
        if len(speeds) < 3 or sum(speeds) / len(speeds) >= 40:
            return 0
        return 2 * (len(speeds) - 2) ** 2

    @entry
    def report(self, car_id: int, speed: int, way: int, lane: int, direction: int, position: int) -> list[str]:
        told = []
        car = self.cars.setdefault(car_id, Car())
        segment = (way, direction, position // 5280)
        self.speeds.setdefault(segment, []).append(speed)
        if car.segment != segment:
            toll = self._toll(segment)
            car.balance += toll
            told.append(f"toll {toll}")
            car.segment = segment
        if (way, position) == (car.segment[0], car.position):
            car.stopped += 1
        else:
            if car.stopped >= 3:
                self.stopped.get((way, car.position), set()).discard(car_id)
            car.stopped = 0
        car.position = position
        if car.stopped >= 3:
            others = self.stopped.setdefault((way, position), set())
            others.add(car_id)
            if len(others) > 1:
                told.append(f"accident of {', '.join(map(str, sorted(others)))}")
        return told

    @entry
    def balance(self, car_id: int) -> int | None:
        car = self.cars.get(car_id)
        return car and car.balance


def _at(minute: int) -> dt.datetime:
    return dt.datetime(2024, 5, 1, 8, tzinfo=UTC) + dt.timedelta(minutes=minute)


def _ride(ride_id: int, minute: int, *, start: bool = True, lon: float = -73.95, lat: float = 40.75) -> Ride:
    return Ride(ride_id, ride_id % 3, start, _at(minute), lon, lat)


RIDES = [_ride(number, number * 7, lon=-73.95 + number / 100 % 0.03) for number in range(6)]

CASES = [
    (
        RidesAndFares,
        [
            *(("on_ride", ride) for ride in RIDES[:3]),
            ("on_fare", Fare(1, 1.5, 0.0, 12.25)),
            ("on_fare", Fare(4, 1.5, 0.0, 9.0)),
            ("on_ride", RIDES[4]),
            ("on_ride", replace(RIDES[2], start=False)),
            ("on_fare", Fare(2, 0.0, 2.0, 7.5)),
        ],
    ),
    (
        PopularPlaces,
        [
            *(("on_ride", ride, 2) for ride in RIDES),
            ("places",),
            ("on_ride", _ride(9, 1, lon=0.0)),
            ("on_ride", RIDES[0]),
            ("places",),
        ],
    ),
    (
        LongRides,
        [
            ("on_event", _ride(1, 0)),
            ("on_event", _ride(2, 5, start=False)),
            ("on_event", _ride(3, 0)),
            ("on_event", _ride(1, 150, start=False)),
            ("on_event", _ride(2, -200)),
            ("overdue", _at(130)),
            ("on_event", _ride(3, 20, start=False)),
            ("overdue", _at(130)),
        ],
    ),
    (HourlyTips, [("on_fare", driver % 3, _at(driver * 17), 1.25 * driver) for driver in range(9)]),
    (
        WordCount,
        [("line", "To be, or not to be"), ("top",), ("line", "that is the question"), ("line", ""), ("top", 2)],
    ),
    (
        PageViewsByRegion,
        [
            ("view", "ann", "home"),
            ("profile", "ann", "asia", ["tea"]),
            ("view", "ann", "home"),
            ("profile", "bob", "europe"),
            ("profile", "ann", "europe"),
            ("view", "bob", "news"),
            ("view", "ann", "news"),
        ],
    ),
    (
        AnomalyDetection,
        [("click", who, _at(0) + dt.timedelta(seconds=13 * number)) for number, who in enumerate("aababbaaab")],
    ),
    (
        TransactionPattern,
        [
            ("process", "a", 50),
            ("process", "b", 60_000),
            ("process", "a", 70_000, "shop"),
            ("process", "a", 70_000),
            ("process", "b", 10),
            ("process", "b", 20),
            ("process", "b", 60_000),
        ],
    ),
    (
        Thermostats,
        [
            ("reading", "r1", "s1", 60.0),
            ("reading", "r1", "s2", 95.0),
            ("failing",),
            ("reading", "r2", "s3", 75.5),
            *itertools.repeat(("reading", "r1", "s2", 20.0), 3),
            ("reading", "r2", "s3", 180.0),
            ("failing",),
        ],
    ),
    (
        Sessions,
        [("click", who, _at(minute)) for who, minute in zip("aabab" * 3, range(0, 300, 20), strict=True)]
        + [("longest",)],
    ),
    (
        LinearRoad,
        [
            *(("report", 1, 30, 0, 1, 0, 100 * turn) for turn in range(3)),
            *itertools.repeat(("report", 1, 0, 0, 1, 0, 400), 4),
            *itertools.repeat(("report", 2, 0, 0, 1, 0, 400), 5),
            ("report", 1, 20, 0, 1, 0, 900),
            ("report", 3, 20, 0, 1, 0, 6000),
            ("report", 4, 10, 0, 1, 0, 500),
            ("balance", 2),
            ("balance", 4),
            ("balance", 99),
        ],
    ),
]

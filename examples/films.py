"""A film club: invented films, members with a taste, and what they rate and ask over one evening."""

from __future__ import annotations

import random
from dataclasses import dataclass

TITLES: dict[str, tuple[str, ...]] = {
    "space": (
        "The Long Orbit", "Ceres Calling", "Airlock", "A Quiet Vacuum", "Europa Below", "Slow Light", "The Ninth Relay",
        "Perihelion", "Dust of Titan", "Last Shuttle Home", "Parsec", "The Cartographer of Mars", "Dark Side Diner",
        "Solar Wind", "Station Eleven Forty", "Gravity Well", "The Lagrange Affair", "Cold Fusion", "Red Shift",
        "Apogee",
    ),
    "crime": (
        "The Glass Alibi", "Nine Fingers", "A Witness in Lisbon", "Dead Letter Office", "The Counterfeiter's Wife",
        "Harbour Lights", "The Second Ledger", "Cold Harbour", "A Debt in Trieste", "The Locksmith", "Evidence Room",
        "Paper Bullets", "Small Hours", "The Informer's Son", "Safe House", "Rain on Canal Street", "The Quiet Fence",
        "Statement of Fact", "Double Entry", "The Night Clerk",
    ),
    "romance": (
        "Letters to Odile", "The Lemon Orchard", "Second Spring", "A Table for One", "Slow Train to Vienna",
        "The Botanist's Heart", "Between Two Ferries", "Lighthouse Summer", "Waltz in Grey", "Postcards Unsent",
        "The Violin Maker", "An Ordinary Tuesday", "Salt and Honey", "Under the Lindens", "The Bookbinder",
        "Ten Past Midnight", "Almost Autumn", "The Borrowed Umbrella", "Yours, Amelie", "The Last Dance at Rosa's",
    ),
    "comedy": (
        "Llamas in the Lift", "The Accidental Mayor", "Dinner for Eleven", "My Cousin the Duke", "Flat Pack",
        "The Worst Butler", "Goose Chase", "Two Left Feet", "The Office Parrot", "Honeymoon for Five", "Mind the Goat",
        "Grandma Goes Viral", "A Slight Misprint", "The Understudy's Understudy", "Soup of the Day", "Wrong Wedding",
        "The Great Cheese Heist", "Speed Dating the Vicar", "Out to Lunch", "The Reluctant Magician",
    ),
    "horror": (
        "The Cellar Door", "Nobody Upstairs", "Hollow Creek", "The Third Knock", "What the Fog Left", "Still Water",
        "The Wax Room", "Teeth", "Do Not Answer", "The Orchard at Night", "Lullaby for a Crow", "The Attic Tenant",
        "Black Moss", "A Face in the Grain", "Thirteen Candles", "The Well Keeper", "Cold Hands", "Under the Floor",
        "The Mirror Guest", "It Hums",
    ),
    "history": (
        "The Salt March", "A Crown of Reeds", "The Siege of Varna", "The Cartwright's Rebellion", "Ships of Carthage",
        "The Queen's Engineer", "Winter at Valmy", "The Silk Courier", "Iron and Wheat", "The Printer of Mainz",
        "Beneath the Aqueduct", "The Last Galley", "Peasants and Kings", "The Treaty Room", "Bread Riots",
        "The Mapmaker of Seville", "Bronze", "The Old Republic", "A Bridge at Mostar", "The Amber Road",
    ),
}  # fmt: skip

GENRES = tuple(TITLES)

FILMS: tuple[tuple[str, str], ...] = tuple((title, genre) for genre, titles in TITLES.items() for title in titles)
"""Title and genre of each film; a film's number is its place here."""

_NUMBERS = {film: number for number, film in enumerate(FILMS)}

STARS_BY_TASTE = (4.25, 3.5, 2.25)
"""What members give on average to films of their first genre, of their second, and to others."""

LIKELY_BY_TASTE = (0.6, 0.2, 0.2)
"""How often they choose a film of each kind."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the club: the genre that they love, and one that they like."""

    number: int
    loves: str
    likes: str


@dataclass(frozen=True, slots=True)
class Rating:
    """A member rates a film; `at` numbers the events of the evening."""

    at: int
    user: int
    film: int
    stars: float


@dataclass(frozen=True, slots=True)
class Request:
    """A member asks what to watch."""

    at: int
    user: int


@dataclass(frozen=True, slots=True)
class Evening:
    """All that happens, in its order."""

    members: tuple[Member, ...]
    events: tuple[Rating | Request, ...]

    @property
    def ratings(self) -> list[Rating]:
        """What is rated, in order."""
        return [event for event in self.events if isinstance(event, Rating)]

    @property
    def requests(self) -> list[Request]:
        """What is asked, in order."""
        return [event for event in self.events if isinstance(event, Request)]


def make_evening(seed: int, *, members: int, ratings: int, requests: int, finale: int) -> Evening:
    """Make up an evening; the last `finale` events are requests of the first members, one of each taste in turn."""
    chance = random.Random(seed)
    club = tuple(_member(chance, number) for number in range(members))
    kinds = ["rate"] * ratings + ["ask"] * (requests - finale)
    chance.shuffle(kinds)
    events: list[Rating | Request] = []
    for at, kind in enumerate(kinds):
        who = chance.choice(club)
        events.append(_rating(chance, at, who) if kind == "rate" else Request(at, who.number))
    events += [Request(len(kinds) + place, club[place % members].number) for place in range(finale)]
    return Evening(club, tuple(events))


def _member(chance: random.Random, number: int) -> Member:
    loves = GENRES[number % len(GENRES)]
    likes = chance.choice([genre for genre in GENRES if genre != loves])
    return Member(number, loves, likes)


def _rating(chance: random.Random, at: int, member: Member) -> Rating:
    others = [genre for genre in GENRES if genre not in (member.loves, member.likes)]
    (kind,) = chance.choices(range(len(LIKELY_BY_TASTE)), LIKELY_BY_TASTE)
    genre = (member.loves, member.likes, chance.choice(others))[kind]
    film = _NUMBERS[chance.choice(TITLES[genre]), genre]
    # Half stars are exact in binary, so that sums of them are the same in any order.
    halves = round(2 * chance.gauss(STARS_BY_TASTE[kind], 0.7))
    return Rating(at, member.number, film, min(max(halves, 1), 10) / 2)

"""Ten programs as people write them, after what other engines publish as their first examples; rows for each.

They share objects as people do: without thinking of it. Nothing here is written to be easy.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.values.pieces import HEAD
from tests.values.plain import Row


class Written(NamedTuple):
    """A program as text, its rows, and what of the generator's features it needs."""

    text: str
    rows: tuple[Row, ...]
    features: frozenset[str]


CART = """
@dataclass
class Line:
    item: str
    count: int


@dataclass
class Receipt:
    user: str
    lines: list[Line]


class Shop(Program):
    stock = Partitioned(Map[str, int])
    carts = Partitioned(Map[str, list[Line]])
    receipts = Partitioned(Map[str, list[Receipt]])

    @entry
    def restock(self, item: str, count: int) -> int:
        self.stock[item] = self.stock.get(item, 0) + count
        return self.stock[item]

    @entry
    def add(self, user: str, item: str, count: int) -> str:
        if self.stock.get(item, 0) < count:
            raise ValueError(f"only {self.stock.get(item, 0)} of {item}")
        self.stock[item] -= count
        cart = self.carts.setdefault(user, [])
        for line in cart:
            if line.item == item:
                line.count += count
                break
        else:
            cart.append(Line(item, count))
        return repr(cart)

    @entry
    def checkout(self, user: str) -> str:
        cart = self.carts.get(user, [])
        receipt = Receipt(user, cart)
        self.receipts.setdefault(user, []).append(receipt)
        cart.clear()
        return repr(self.receipts[user])
"""
CART_ROWS = (
    ("restock", ("pen", 5)),
    ("add", ("ann", "pen", 2)),
    ("add", ("ann", "pen", 1)),
    ("add", ("bob", "pen", 9)),
    ("checkout", ("ann",)),
    ("add", ("ann", "pen", 1)),
    ("checkout", ("ann",)),
    ("checkout", ("bob",)),
)

HOTEL = """
@dataclass
class Hotel:
    name: str
    free: int
    guests: list[str]


@dataclass
class Booking:
    number: int
    hotel: Hotel
    guest: str


class Trips(Program):
    hotels = Partitioned(Map[str, Hotel])
    bookings = Partitioned(Map[str, Booking])

    @entry
    def open(self, name: str, rooms: int) -> None:
        self.hotels[name] = Hotel(name, rooms, [])

    @entry
    def reserve(self, guest: str, name: str, number: int) -> str:
        hotel = self.hotels[name]
        if hotel.free <= 0:
            return "full"
        hotel.free -= 1
        hotel.guests.append(guest)
        self.bookings[guest] = Booking(number, hotel, guest)
        return f"{hotel.name}: {hotel.free} left"

    @entry
    def show(self, guest: str) -> str:
        return repr(self.bookings.get(guest))
"""
HOTEL_ROWS = (
    ("open", ("sea", 2)),
    ("reserve", ("ann", "sea", 1)),
    ("show", ("ann",)),
    ("reserve", ("bob", "sea", 2)),
    ("reserve", ("cid", "sea", 3)),
    ("show", ("ann",)),
    ("reserve", ("cid", "hill", 4)),
    ("show", ("cid",)),
)

BOOK = """
class Best(NamedTuple):
    bid: float
    ask: float


class Market(Program):
    bids = Partitioned(Map[str, dict[float, int]])
    asks = Partitioned(Map[str, dict[float, int]])
    best = Partitioned(Map[str, Best])

    @entry
    def update(self, symbol: str, side: str, price: float, size: int) -> str:
        book = (self.bids if side == "bid" else self.asks).setdefault(symbol, {})
        if size == 0:
            book.pop(price, None)
        else:
            book[price] = size
        bids, asks = self.bids.get(symbol, {}), self.asks.get(symbol, {})
        if not bids or not asks:
            return "none"
        self.best[symbol] = Best(max(bids), min(asks))
        return repr(self.best[symbol])
"""
BOOK_ROWS = (
    ("update", ("btc", "bid", 10.0, 3)),
    ("update", ("btc", "ask", 12.0, 1)),
    ("update", ("btc", "bid", 11.0, 2)),
    ("update", ("btc", "bid", 11.0, 0)),
    ("update", ("eth", "ask", 5.0, 1)),
)

REVIEWS = """
@dataclass
class Review:
    user: str
    rating: int
    texts: list[str]


class Movies(Program):
    by_movie = Partitioned(Map[str, list[Review]])
    by_user = Partitioned(Map[str, list[Review]])

    @entry
    def compose(self, user: str, movie: str, rating: int, text: str) -> int:
        review = Review(user, rating, [text])
        self.by_movie.setdefault(movie, []).append(review)
        self.by_user.setdefault(user, []).append(review)
        return len(self.by_movie[movie])

    @entry
    def edit(self, user: str, text: str) -> str:
        for review in self.by_user.get(user, []):
            review.texts.append(text)
        return repr(self.by_user.get(user))

    @entry
    def read(self, movie: str) -> str:
        return repr(sorted(self.by_movie.get(movie, []), key=lambda review: review.rating))
"""
REVIEWS_ROWS = (
    ("compose", ("ann", "Up", 5, "good")),
    ("compose", ("bob", "Up", 3, "fine")),
    ("edit", ("ann", "very")),
    ("read", ("Up",)),
    ("compose", ("ann", "It", 1, "no")),
    ("edit", ("ann", "again")),
    ("read", ("It",)),
)

RIDES = """
@dataclass
class Driver:
    name: str
    place: int
    ride: str | None
    done: list[str]


class Rides(Program):
    drivers = Partitioned(Map[str, Driver])

    @entry
    def move(self, name: str, place: int) -> str:
        driver = self.drivers.get(name, Driver(name, 0, None, []))
        driver = dataclasses.replace(driver, place=place)
        self.drivers[name] = driver
        return repr(driver)

    @entry
    def ride(self, name: str | None, ride: str) -> str:
        if name is None:
            return "nobody is near"
        driver = self.drivers[name]
        if driver.ride is not None:
            driver.done.append(driver.ride)
        driver.ride = ride
        return repr(driver)
"""
RIDES_ROWS = (
    ("move", ("dan", 3)),
    ("ride", ("dan", "r1")),
    ("ride", (None, "r2")),
    ("move", ("dan", 4)),
    ("ride", ("dan", "r3")),
    ("ride", ("eve", "r4")),
    ("move", ("dan", 5)),
)

FRAUD = """
RULES = {"limit": [100, 500], "blocked": []}


class Fraud(Program):
    history = Partitioned(Map[str, list[int]])
    limits = Partitioned(Map[str, list[int]])

    @entry
    def pay(self, account: str, amount: int) -> str:
        limits = self.limits.get(account, RULES["limit"])
        past = self.history.get(account, [])
        past = [*past, amount][-3:]
        self.history[account] = past
        alarms = [f"{amount} over {limit}" for limit in limits if sum(past) > limit]
        return ", ".join(alarms) or "fine"

    @entry
    def watch(self, account: str) -> str:
        self.limits[account] = RULES["limit"]
        return repr(self.limits[account])

    @entry
    def lower(self, account: str, limit: int) -> str:
        self.limits[account].append(limit)
        return repr((self.limits[account], RULES))
"""
FRAUD_ROWS = (
    ("pay", ("a", 90)),
    ("pay", ("a", 90)),
    ("watch", ("a",)),
    ("lower", ("a", 10)),
    ("pay", ("a", 5)),
    ("pay", ("b", 501)),
    ("lower", ("b", 1)),
)

VIEWS = """
class Pages(Program):
    views = Partitioned(Map[str, dict[str, int]])
    visitors = Partitioned(Map[str, set[str]])

    @entry
    def view(self, page: str, user: str) -> str:
        counts = self.views.get(page, {})
        counts[user] = counts.get(user, 0) + 1
        self.views[page] = counts
        self.visitors.setdefault(page, set()).add(user)
        top = max(counts.values())
        return f"{page} {len(self.visitors[page])} {top}"

    @entry
    def forget(self, page: str) -> bool:
        known = page in self.views
        if known:
            del self.views[page]
        return known
"""
VIEWS_ROWS = (
    ("view", ("p", "ann")),
    ("view", ("p", "bob")),
    ("view", ("p", "ann")),
    ("forget", ("p",)),
    ("forget", ("q",)),
    ("view", ("p", "ann")),
)

SENSORS = """
class Reading(NamedTuple):
    at: int
    values: list[float]


@lru_cache(maxsize=None)
def bounds(kind: str) -> list[float]:
    return [0.0, 10.0 if kind == "warm" else 5.0]


class Sensors(Program):
    last = Partitioned(Map[str, Reading])
    allowed = Partitioned(Map[str, list[float]])

    @entry
    def install(self, name: str, kind: str) -> None:
        self.allowed[name] = bounds(kind)

    @entry
    def tune(self, name: str, high: float) -> str:
        self.allowed[name][1] = high
        return repr((self.allowed[name], bounds("warm")))

    @entry
    def read(self, name: str, at: int, values: list[float]) -> str:
        before = self.last.get(name, Reading(0, []))
        self.last[name] = Reading(at, values)
        low, high = self.allowed.get(name, bounds("cold"))
        odd = [value for value in values if not low <= value <= high]
        return repr((at - before.at, before.values, odd))
"""
SENSORS_ROWS = (
    ("install", ("s", "warm")),
    ("install", ("t", "warm")),
    ("read", ("s", 5, [1.0, 11.0])),
    ("tune", ("s", 20.0)),
    ("read", ("s", 9, [11.0])),
    ("read", ("t", 9, [11.0])),
    ("read", ("u", 1, [6.0])),
)

BANK = """
@dataclass
class Account:
    owner: str
    balance: int
    log: list[str]

    @cached_property
    def label(self) -> str:
        return f"{self.owner} with {self.balance}"


class Bank(Program):
    accounts = Partitioned(Map[str, Account])

    @entry
    def deposit(self, owner: str, amount: int) -> str:
        account = self.accounts.setdefault(owner, Account(owner, 0, []))
        account.balance += amount
        account.log.append(f"+{amount}")
        return account.label

    @entry
    def transfer(self, source: str, target: str, amount: int) -> str:
        payer, payee = self.accounts[source], self.accounts[target]
        payer.balance -= amount
        payee.balance += amount
        if payer.balance < 0:
            raise ValueError("too little")
        note = [f"{source} to {target}"]
        payer.log = note
        payee.log += note
        return f"{payer.label}; {payee.label}"

    @entry
    def snapshot(self, owner: str, name: str) -> str:
        self.accounts[name] = copy.copy(self.accounts[owner])
        return repr(self.accounts[name])
"""
BANK_ROWS = (
    ("deposit", ("a", 5)),
    ("deposit", ("a", 6)),
    ("deposit", ("b", 1)),
    ("transfer", ("a", "b", 4)),
    ("transfer", ("a", "b", 40)),
    ("transfer", ("a", "z", 1)),
    ("snapshot", ("a", "old")),
    ("deposit", ("a", 1)),
    ("snapshot", ("old", "older")),
)

FEED = """
def reversed(items):
    return items[::-1][:2]


class Feed(Program):
    posts = Partitioned(Map[str, list[str]])
    friends = Partitioned(Map[str, list[str]])
    walls = Partitioned(Map[str, list[list[str]]])

    @entry
    def post(self, user: str, text: str) -> int:
        mine = self.posts.setdefault(user, [])
        mine.append(text)
        return len(mine)

    @entry
    def befriend(self, user: str, names: list[str]) -> list[str]:
        self.friends[user] = names
        return self.friends[user]

    @entry
    def wall(self, user: str) -> str:
        parts = list(map(lambda name: self.posts.get(name, []), self.friends.get(user, [])))
        self.walls[user] = parts
        return repr([text for part in parts for text in reversed(part)])
"""
FEED_ROWS = (
    ("post", ("ann", "hi")),
    ("post", ("ann", "ho")),
    ("befriend", ("bob", ["ann", "cid"])),
    ("wall", ("bob",)),
    ("post", ("ann", "ha")),
    ("wall", ("bob",)),
    ("wall", ("cid",)),
)

PEOPLE = {
    "cart": Written(HEAD + CART, CART_ROWS, frozenset({"shared", "constructor", "raising row", "default of get"})),
    "hotel": Written(HEAD + HOTEL, HOTEL_ROWS, frozenset({"shared", "constructor", "raising row"})),
    "order book": Written(HEAD + BOOK, BOOK_ROWS, frozenset({"shared", "named tuple", "default of get"})),
    "reviews": Written(HEAD + REVIEWS, REVIEWS_ROWS, frozenset({"shared", "second place", "constructor"})),
    "rides": Written(HEAD + RIDES, RIDES_ROWS, frozenset({"shared", "replace", "guard", "raising row"})),
    "fraud": Written(HEAD + FRAUD, FRAUD_ROWS, frozenset({"shared", "module object", "raising row"})),
    "views": Written(HEAD + VIEWS, VIEWS_ROWS, frozenset({"shared", "set", "default of get"})),
    "sensors": Written(HEAD + SENSORS, SENSORS_ROWS, frozenset({"shared", "cached function", "named tuple", "caller"})),
    "bank": Written(HEAD + BANK, BANK_ROWS, frozenset({"shared", "cached property", "copy", "raising row"})),
    "feed": Written(HEAD + FEED, FEED_ROWS, frozenset({"shared", "own builtin", "roundabout", "caller"})),
}

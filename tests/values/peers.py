"""Eight more programs as people write them: what the manuals of other engines and benchmarks begin with; rows for each.

They are after TPC-C, Nexmark, Flink's training, the word count and the top list of Kafka Streams, Faust's withdrawals,
Bytewax's anomalies, the state machine of a device, and a game's high scores.
"""

from __future__ import annotations

from tests.values.people import Written
from tests.values.pieces import HEAD

TPCC = """
@dataclass
class District:
    next_order: int = 1
    year_to_date: int = 0


@dataclass
class OrderLine:
    item: int
    quantity: int
    amount: int


class Tpcc(Program):
    districts = Partitioned(Map[int, District])
    stock = Partitioned(Map[tuple[int, int], int])
    orders = Partitioned(Map[int, list[list[OrderLine]]])

    @entry
    def new_order(self, district: int, items: list[int], quantities: list[int]) -> str:
        mine = self.districts.setdefault(district, District())
        number = mine.next_order
        mine.next_order += 1
        lines = []
        for item, quantity in zip(items, quantities):
            if item < 0:
                raise LookupError("unused item number")
            left = self.stock.get((district, item), 10)
            self.stock[district, item] = left - quantity if left - quantity >= 3 else left - quantity + 91
            lines.append(OrderLine(item, quantity, quantity * (item + 1)))
        self.orders.setdefault(district, []).append(lines)
        mine.year_to_date += sum(line.amount for line in lines)
        return f"{number}: {mine.year_to_date} {[self.stock[district, item] for item in items]}"

    @entry
    def delivery(self, district: int) -> str:
        waiting = self.orders.get(district, [])
        return repr(waiting.pop(0)) if waiting else "none"
"""
TPCC_ROWS = (
    ("new_order", (1, [1, 2], [3, 4])),
    ("new_order", (1, [1, -1], [3, 4])),
    ("new_order", (1, [1, 2, 1], [3, 4, 2])),
    ("delivery", (1,)),
    ("delivery", (1,)),
    ("new_order", (2, [], [])),
    ("delivery", (2,)),
)

AUCTIONS = """
@dataclass(frozen=True)
class Bid:
    bidder: str
    price: int


@dataclass
class Auction:
    seller: str
    reserve: int
    bids: list[Bid] = field(default_factory=list)
    open: bool = True

    @property
    def best(self) -> Bid | None:
        return max(self.bids, key=lambda bid: bid.price) if self.bids else None


class Auctions(Program):
    auctions = Partitioned(Map[int, Auction])
    won = Partitioned(Map[str, list[Bid]])

    @entry
    def start(self, number: int, seller: str, reserve: int) -> None:
        self.auctions[number] = Auction(seller, reserve)

    @entry
    def bid(self, number: int, bidder: str, price: int) -> str:
        auction = self.auctions.get(number)
        if auction is None or not auction.open:
            return "closed"
        if (best := auction.best) is not None and price <= best.price:
            return f"below {best.price}"
        auction.bids.append(Bid(bidder, price))
        return repr(auction.best)

    @entry
    def close(self, number: int, winner: str) -> str:
        auction = self.auctions[number]
        auction.open = False
        mine = [bid for bid in auction.bids if bid.bidder == winner and bid.price >= auction.reserve]
        self.won[winner] = self.won.get(winner, []) + mine[-1:]
        return repr(self.won[winner])
"""
AUCTIONS_ROWS = (
    ("start", (1, "sam", 5)),
    ("bid", (1, "ann", 4)),
    ("bid", (1, "bob", 4)),
    ("bid", (1, "ann", 7)),
    ("bid", (2, "ann", 7)),
    ("close", (1, "ann")),
    ("bid", (1, "bob", 9)),
    ("close", (2, "ann")),
    ("start", (2, "tim", 1)),
    ("bid", (2, "ann", 2)),
    ("close", (2, "ann")),
)

TAXIS = """
class Event(NamedTuple):
    start: bool
    minute: int


class Taxis(Program):
    waiting = Partitioned(Map[int, Event])
    long_rides = Partitioned(Map[int, list[int]])
    tips = Partitioned(Map[int, dict[int, int]])

    @entry
    def ride(self, number: int, start: bool, minute: int, driver: int | None) -> str:
        event = Event(start, minute)
        before = self.waiting.pop(number, None)
        if before is None:
            self.waiting[number] = event
            return "waits"
        first, last = sorted([before.minute, event.minute])
        long = last - first > 120
        if long and driver is not None:
            self.long_rides.setdefault(driver, []).append(number)
        return f"{'long' if long else 'fine'} {before} {driver and self.long_rides.get(driver)}"

    @entry
    def fare(self, driver: int, hour: int, tip: int) -> str:
        hours = self.tips.get(driver, {})
        self.tips[driver] = {**hours, hour: hours.get(hour, 0) + tip}
        hour, most = max(self.tips[driver].items(), key=lambda pair: (pair[1], -pair[0]))
        return f"{hour}: {most}"
"""
TAXIS_ROWS = (
    ("ride", (1, True, 10, 7)),
    ("ride", (1, False, 200, 7)),
    ("ride", (2, False, 50, None)),
    ("ride", (2, True, 300, None)),
    ("fare", (7, 1, 5)),
    ("fare", (7, 2, 6)),
    ("fare", (7, 1, 2)),
    ("ride", (3, True, 1, 0)),
    ("ride", (3, False, 2, 0)),
)

WORDS = """
def words_of(text):
    for word in text.lower().split():
        word = word.strip(".,!")
        if word:
            yield word


class Words(Program):
    counts = Partitioned(Map[str, dict[str, int]])
    top = Partitioned(Map[str, list[tuple[str, int]]])

    @entry
    def line(self, book: str, text: str) -> str:
        counts = self.counts.setdefault(book, {})
        for word in words_of(text):
            counts[word] = counts.get(word, 0) + 1
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        before = self.top.get(book)
        self.top[book] = ranked[:2]
        return f"{self.top[book]} was {before}"

    @entry
    def drop(self, book: str, word: str) -> int:
        counts = self.counts.get(book, {})
        while len(counts) > 1 and word in counts:
            del counts[word]
        return len(counts)
"""
WORDS_ROWS = (
    ("line", ("a", "To be, or not to be!")),
    ("line", ("a", "to see")),
    ("drop", ("a", "to")),
    ("line", ("a", "see")),
    ("drop", ("b", "x")),
    ("line", ("b", "")),
)

WITHDRAWALS = """
LIMITS = {"gold": 1000, "blue": 100}


@dataclass
class Holder:
    tier: str
    history: list[int] = field(default_factory=list)
    flags: dict[str, list[int]] = field(default_factory=dict)


class Withdrawals(Program):
    holders = Partitioned(Map[str, Holder])

    @entry
    def withdraw(self, user: str, amount: int, tier: str | None) -> str:
        try:
            holder = self.holders[user]
        except KeyError:
            holder = self.holders[user] = Holder(tier or "blue")
        if tier is not None and tier != holder.tier:
            holder.tier = tier
        limit = LIMITS.get(holder.tier)
        if limit is None:
            raise ValueError(f"no tier {holder.tier}")
        holder.history.append(amount)
        *_, last = holder.history
        if last > limit or sum(holder.history[-3:]) > 2 * limit:
            holder.flags.setdefault(holder.tier, []).append(last)
        return repr(holder)
"""
WITHDRAWALS_ROWS = (
    ("withdraw", ("ann", 50, None)),
    ("withdraw", ("ann", 150, None)),
    ("withdraw", ("ann", 900, "gold")),
    ("withdraw", ("ann", 1, "lead")),
    ("withdraw", ("ann", 1200, None)),
    ("withdraw", ("bob", 1, "lead")),
    ("withdraw", ("bob", 1, None)),
)

ANOMALIES = """
class ZScore:
    def __init__(self, last):
        self.last = last

    def push(self, value):
        self.last.insert(0, value)
        del self.last[3:]
        return self

    def far(self, value):
        if len(self.last) < 2:
            return False
        mean = sum(self.last) / len(self.last)
        return abs(value - mean) > 10


class Anomalies(Program):
    last = Partitioned(Map[str, list[float]])
    odd = Partitioned(Map[str, int])

    @entry
    def observe(self, name: str, value: float) -> str:
        score = ZScore(self.last.setdefault(name, []))
        far = score.far(value)
        score.push(value)
        self.odd[name] = self.odd.get(name, 0) + int(far)
        return f"{name} {value:.1f} {far} {self.odd[name]} {self.last[name]}"
"""
ANOMALIES_ROWS = tuple(
    ("observe", (name, value))
    for name, value in zip("aabaabab", (1.0, 2.0, 5.0, 40.0, 3.5, 5.5, 9.0, 70.0), strict=True)
)

DEVICES = """
class Devices(Program):
    state = Partitioned(Map[int, str])
    log = Partitioned(Map[int, list[str]])

    def _note(self, device: int, text: str) -> int:
        log = self.log.setdefault(device, [])
        log.append(text)
        return len(log)

    @entry
    def signal(self, device: int, kind: str, payload: list[int]) -> str:
        before = self.state.get(device, "off")
        match (before, kind, payload):
            case ("off", "on", _):
                after = "idle"
            case ("idle" | "busy", "work", [first, *rest]) if first > 0:
                after = "busy"
                payload = rest
            case ("busy", "done", []):
                after = "idle"
            case (_, "off", _):
                after = "off"
            case _:
                return f"{before} does not take {kind} ({self._note(device, 'bad')})"
        self.state[device] = after
        count = self._note(device, f"{before}>{after}")
        return f"{after} {payload} {count} {' '.join(reversed(self.log[device]))}"
"""
DEVICES_ROWS = (
    ("signal", (1, "on", [])),
    ("signal", (1, "work", [2, 3])),
    ("signal", (1, "done", [])),
    ("signal", (1, "work", [0])),
    ("signal", (1, "off", [])),
    ("signal", (2, "work", [1])),
)

SCORES = """
class Score(NamedTuple):
    points: int
    player: str


class Scores(Program):
    best = Partitioned(Map[str, list[Score]])
    seen = Partitioned(Map[str, set[str]])

    @entry
    def play(self, game: str, player: str, points: int) -> str:
        best = self.best.setdefault(game, [])
        best.append(Score(points, player))
        best.sort(reverse=True)
        del best[3:]
        players = self.seen.setdefault(game, set())
        players.add(player)
        place = next((place for place, score in enumerate(best, 1) if score == Score(points, player)), None)
        return f"{place} of {len(players)}: {[*map(str, best)]}"

    @entry
    def rename(self, game: str, old: str, new: str) -> str:
        best = [score._replace(player=new) if score.player == old else score for score in self.best.get(game, [])]
        self.best[game] = best
        self.seen[game] = {new if name == old else name for name in sorted(self.seen.get(game, set()))}
        return repr((best, sorted(self.seen[game]), any(score.player == old for score in best)))
"""
SCORES_ROWS = (
    ("play", ("chess", "ann", 5)),
    ("play", ("chess", "bob", 7)),
    ("play", ("chess", "ann", 6)),
    ("play", ("chess", "cid", 1)),
    ("rename", ("chess", "ann", "eve")),
    ("rename", ("go", "ann", "eve")),
    ("play", ("chess", "ann", 9)),
)

PEERS = {
    "tpc-c": Written(HEAD + TPCC, TPCC_ROWS, frozenset({"constructor", "raising row", "loop", "comprehension"})),
    "auctions": Written(HEAD + AUCTIONS, AUCTIONS_ROWS, frozenset({"frozen", "walrus", "default of get"})),
    "taxis": Written(HEAD + TAXIS, TAXIS_ROWS, frozenset({"named tuple", "guard", "copy", "unpacking"})),
    "words": Written(HEAD + WORDS, WORDS_ROWS, frozenset({"helper", "tuple", "loop"})),
    "withdrawals": Written(HEAD + WITHDRAWALS, WITHDRAWALS_ROWS, frozenset({"try", "module object", "unpacking"})),
    "anomalies": Written(HEAD + ANOMALIES, ANOMALIES_ROWS, frozenset({"helper", "shared"})),
    "devices": Written(HEAD + DEVICES, DEVICES_ROWS, frozenset({"match", "helper", "list parameter"})),
    "scores": Written(HEAD + SCORES, SCORES_ROWS, frozenset({"set", "named tuple", "comprehension"})),
}

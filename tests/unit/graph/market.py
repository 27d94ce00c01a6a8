"""A program of fifteen tasks: what a graph must stay readable for."""

from __future__ import annotations

from millpond import Counter, Map, Partial, Partitioned, Program, Set, each, entry, merged


class Market(Program):
    """Offers, orders and ratings; each method goes its way through the same elements."""

    sellers = Partitioned(Map[str, int])
    offers = Partitioned(Map[int, float])
    stock = Partitioned(Counter[int])
    buyers = Partitioned(Map[str, float])
    banned = Partitioned(Set[str])
    trends = Partial(Counter[str])
    daily = Partitioned(Map[str, float])

    @entry
    def order(self, seller: str, item: int, buyer: str, day: str) -> float:
        rank = self.sellers.get(seller, 0)
        price = self.offers.get(item, 0.0) * (1 + rank / 100)
        self.stock[item] -= 1
        paid = self.buyers.get(buyer, 0.0) + price
        self.buyers[buyer] = paid
        self.daily[day] = self.daily.get(day, 0.0) + price
        return paid

    @entry
    def offer(self, seller: str, item: int, price: float, pieces: int) -> None:
        self.sellers[seller] = self.sellers.get(seller, 0) + 1
        self.offers[item] = price
        self.stock[item] += pieces

    @entry
    def complain(self, seller: str, buyer: str) -> bool:
        rank = self.sellers.get(seller, 0)
        bad = buyer in self.banned
        if rank > 3 and not bad:
            self.buyers[buyer] = self.buyers.get(buyer, 0.0) - rank
        return bad

    @entry
    def trend(self, item: int, word: str) -> int:
        price = self.offers.get(item, 0.0)
        seen = merged(each(self.trends).get(word, 0), sum)
        return int(seen * price)

    @entry
    def mention(self, word: str) -> None:
        self.trends[word] += 1

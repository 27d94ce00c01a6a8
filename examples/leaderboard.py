"""A leaderboard with ranks: the best score of every player, their rank among all, and the names at the top.

A rank needs a view of all players, which partitioned state does not have. What it needs of them is little: how many
have each score. That is a partial histogram, added up when somebody asks. The names at the top are a list per game.
All entry points are exact.
"""

from __future__ import annotations

import random
import sys

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Map, Matrix, Partial, Partitioned, Program, each, entry, merged, merges

SEED = 233
ROWS = 4_000
GAMES = ("chess", "go", "mill")
PLAYERS = tuple(f"player-{number:03}" for number in range(150))


class Leaderboard(Program):
    """Keeps the best score of every player."""

    scores = Partitioned(Map[tuple[str, str], int])  # by game and player
    players = Partial(Matrix[str, int, int])  # game x score; in one copy a number may be below zero
    top = Partitioned(Map[str, list[tuple[int, str]]])  # by game

    SHOWN = 5

    @entry
    def score(self, game: str, player: str, points: int) -> bool:
        """Take a result; answers whether it is the player's best in this game so far."""
        best = self.scores.get((game, player))
        if best is not None and points <= best:
            return False
        self.scores[game, player] = points
        if best is not None:
            self.players[game, best] -= 1
        self.players[game, points] += 1
        others = [(score, name) for score, name in self.top.get(game, []) if name != player]
        self.top[game] = sorted([*others, (points, player)], key=place)[: self.SHOWN]
        return True

    @entry
    def rank(self, game: str, player: str) -> int | None:
        """Answer with a player's rank, 1 for the best; players with one score share a rank."""
        best = self.scores.get((game, player))
        if best is None:
            return None
        players = merged(each(self.players).row(game), merges.add_vectors)
        return 1 + sum(int(count) for score, count in players.items() if score > best)

    @entry
    def leaders(self, game: str) -> list[tuple[int, str]]:
        """Answer with the best scores of a game and their players, the best first."""
        return self.top.get(game, [])


def place(scored: tuple[int, str]) -> tuple[int, str]:
    """Order by score, the highest first; the first in the alphabet wins a tie."""
    points, player = scored
    return -points, player


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up games and questions; a few players play most of them."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        game, player = hot(chance, GAMES), hot(chance, PLAYERS)
        (kind,) = chance.choices(("score", "rank", "leaders"), (12, 4, 1))
        arguments = {
            "score": (game, player, int(chance.gauss(50, 15))),
            "rank": (game, player),
            "leaders": (game,),
        }
        rows.append((kind, arguments[kind]))
    return rows


def main() -> int:
    """Run the leaderboard as plain Python, and show the top of it."""
    board = Leaderboard()
    play(board, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    table = Table("game", "rank", "player", "score", title="The best players", title_justify="left")
    for game in GAMES:
        for points, player in board.leaders(game):
            table.add_row(game, str(board.rank(game, player)), player, str(points))
        table.add_section()
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""An online recommender: it learns from a stream of ratings, and answers what to watch while it learns.

Two kinds of state: ratings, partitioned by user, and how often films are rated together, in partial copies that each
learn from a share of the users and are added up when somebody asks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.files import OUT, fresh_folder, parts_of, read_rows, stream, write_parts
from examples.films import FILMS, Evening, Member, Rating, make_evening
from examples.report import REASON_COLUMNS, EpochLine, Reason, Share, Told, report_page
from millpond import Matrix, Partial, Partitioned, Program, Vector, each, entry, merged, parquet
from millpond.clock import SystemClock
from millpond.spark.session import local_session

SEED = 20
RATINGS = 200_000
RATINGS_PER_MEMBER = 5
RATINGS_PER_REQUEST = 50
SHOWN = 3
EPOCHS = 5

RATING_COLUMNS = pa.schema([("at", pa.int64()), ("user", pa.int64()), ("film", pa.int64()), ("stars", pa.float64())])
REQUEST_COLUMNS = pa.schema([("at", pa.int64()), ("user", pa.int64())])

Answer = list[tuple[int, float]]
"""Recommended films with their scores, best first."""

Answers = list[tuple[int, Answer]]
"""The event that asked, and what it was told; a list, because an answer given twice must show."""


def add_vectors(vectors: list[Vector[int]]) -> Vector[int]:
    """Add up what all copies answered."""
    total: Vector[int] = Vector()
    for vector in vectors:
        total = total.add(vector)
    return total


def best(scores: Vector[int], seen: Vector[int], count: int) -> dict[int, float]:
    """Choose the films with the highest scores that the user has not seen; the lower number wins a tie."""
    fresh = [(-score, film) for film, score in scores.items() if film not in seen and score > 0]
    return {film: -score for score, film in sorted(fresh)[:count]}


class Recommender(Program):
    """Recommends films that are often rated by the same people as those that a user rated well."""

    ratings = Partitioned(Matrix[int, int, float], by="row")  # user x film
    together = Partial(Matrix[int, int, int], by="column")  # film x film, in copies that diverge

    AVERAGE = 2.5
    COUNT = 5

    @entry
    def rate(self, user: int, film: int, stars: float) -> None:
        """Learn that a user gave a film some stars."""
        others = self.ratings.row(user)
        self.ratings[user, film] = stars
        if film not in others:
            for other in others:
                self.together[film, other] += 1
                self.together[other, film] += 1

    @entry
    def recommend(self, user: int) -> dict[int, float]:
        """Answer with the best films for a user, best first, and their scores."""
        row = self.ratings.row(user)
        taste = {film: stars - self.AVERAGE for film, stars in row.items()}
        scores = each(self.together).multiply(taste)
        return best(merged(scores, add_vectors), row, self.COUNT)


def plain_run(evening: Evening) -> tuple[Recommender, Answers]:
    """Run the class as plain Python, event by event: what the run on Spark must equal."""
    program = Recommender()
    answers: Answers = []
    for event in evening.events:
        if isinstance(event, Rating):
            program.rate(event.user, event.film, event.stars)
        else:
            answers.append((event.at, list(program.recommend(event.user).items())))
    return program, answers


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run on Spark left behind."""

    answers: Answers
    epochs: tuple[EpochLine, ...]
    replies: Path
    checkpoint: Path

    @property
    def rows(self) -> int:
        """How many ratings and requests were worked on."""
        return sum(epoch.rows for epoch in self.epochs)


def spark_run(spark: SparkSession, evening: Evening, folder: Path, epochs: int) -> Outcome:
    """Stream the evening through the class on Spark."""
    ends = [len(evening.events) * (number + 1) // epochs for number in range(epochs)]
    ratings = [{"at": r.at, "user": r.user, "film": r.film, "stars": r.stars} for r in evening.ratings]
    requests = [{"at": r.at, "user": r.user} for r in evening.requests]
    rated = write_parts(folder / "ratings", RATING_COLUMNS, parts_of(ratings, "at", ends))
    asked = write_parts(folder / "requests", REQUEST_COLUMNS, parts_of(requests, "at", ends))
    replies, checkpoint = folder / "recommended", folder / "checkpoint"

    job = Recommender.on(spark, checkpoint=checkpoint, local_root=folder / "local")
    job.feed("rate", stream(spark, rated), order_by="at")
    job.feed("recommend", stream(spark, asked), order_by="at", keep=["at", "user"], to=parquet(replies))
    report = job.run()

    answers = sorted((row["at"], row["reply"]) for row in read_rows(replies))
    lines = tuple(EpochLine(one.epoch, one.rows, one.replies, one.seconds) for one in report.epochs)
    return Outcome(answers, lines, replies, checkpoint)


def first_difference(found: Answers, expected: Answers) -> str:
    """Tell where two runs part."""
    for got, wanted in zip_longest(found, expected):
        if got != wanted:
            return f"expected {wanted}, found {got}"
    return "none"


def share_in_taste(evening: Evening, answers: Answers, first: int, last: int) -> float | None:
    """How many of the films recommended from one event to another are of the genre that the user loves."""
    users = {request.at: request.user for request in evening.requests}
    hits = [
        FILMS[film][1] == evening.members[users[at]].loves
        for at, films in answers
        if first <= at < last
        for film, _ in films
    ]
    return sum(hits) / len(hits) if hits else None


def share_by_chance(evening: Evening) -> float:
    """The same share, if films were drawn blindly from those that each user has not seen at the end."""
    seen: dict[int, set[int]] = {}
    for rating in evening.ratings:
        seen.setdefault(rating.user, set()).add(rating.film)
    shares = []
    for member in evening.members:
        left = [genre for film, (_, genre) in enumerate(FILMS) if film not in seen.get(member.number, ())]
        shares.append(left.count(member.loves) / len(left))
    return sum(shares) / len(shares)


def learning(evening: Evening, answers: Answers) -> list[Share]:
    """Tell how the answers get better while the stream goes by."""
    quarter = len(evening.events) // 4
    shares = [
        Share(name, share_in_taste(evening, answers, number * quarter, (number + 1) * quarter + 4 * (number == 3)))
        for number, name in enumerate(("first quarter", "second quarter", "third quarter", "last quarter"))
    ]
    return [*shares, Share("drawn blindly", share_by_chance(evening))]


def tell(program: Recommender, member: Member, answer: Answer) -> Told:
    """Tell what a member likes, what was recommended, and why."""
    row = program.ratings.row(member.number)
    liked = sorted(row, key=lambda film: (-row[film], film))
    reasons = []
    for film, score in answer:
        why = max(liked, key=lambda other: (program.together[film, other] * (row[other] - program.AVERAGE), -other))
        reasons.append(Reason(*FILMS[film], score, FILMS[why][0], program.together[film, why]))
    favourites = ", ".join(f"{FILMS[film][0]} ({FILMS[film][1]}, {row[film]})" for film in liked[:3])
    return Told(member.number, f"loves {member.loves}. Best rated: {favourites}.", tuple(reasons))


def show(console: Console, shares: Sequence[Share], told: Sequence[Told]) -> None:
    """Show how it learns, and what some members were told."""
    table = Table("part of the stream", "in the user's favourite genre", title="How it learns", title_justify="left")
    for share in shares:
        table.add_row(share.part, share.text)
    console.print(table)
    for one in told:
        console.print(f"\n[bold]Member {one.member}[/] {one.about}")
        table = Table(*REASON_COLUMNS)
        for reason in one.reasons:
            table.add_row(*reason.cells)
        console.print(table)


def show_place(path: Path) -> str:
    """Name a folder from where the reader stands."""
    return f"./{path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else str(path)


def main(ratings: int = RATINGS) -> int:
    """Run the example; the exit code tells whether Spark and plain Python agree."""
    console, clock = Console(highlight=False), SystemClock()
    folder = fresh_folder(OUT / "recommender")
    members, requests = ratings // RATINGS_PER_MEMBER, ratings // RATINGS_PER_REQUEST
    console.print(f"{members:,} members, {len(FILMS)} films, {ratings:,} ratings, {requests:,} requests.")
    evening = make_evening(SEED, members=members, ratings=ratings, requests=requests, finale=SHOWN)
    console.print("Starting Spark, and meanwhile running the class as plain Python over the same events ...")
    # A JVM takes seconds to start and one core; what is measured begins when both are done.
    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(plain_run, evening)
        spark = local_session("recommender")
    try:
        program, expected = plain.result()
        console.print(f"Streaming through the class [bold]Recommender[/] in {EPOCHS} epochs ...")
        begun = clock.ticks()
        outcome = spark_run(spark, evening, folder, EPOCHS)
        took = clock.ticks() - begun
    finally:
        spark.stop()
    figures = (
        f"{outcome.rows:,} rows in {len(outcome.epochs)} epochs, {took:.0f} s, {outcome.rows / took:,.0f} rows a second"
    )
    console.print(f"{figures}, each epoch checkpointed.\n")

    if outcome.answers != expected:
        difference = escape(first_difference(outcome.answers, expected))
        console.print(f"[red]The answers differ from those of the plain Python run:[/] {difference}")
        return 1
    asked = zip(evening.requests[-SHOWN:], outcome.answers[-SHOWN:], strict=True)
    told = [tell(program, evening.members[request.user], answer) for request, (_, answer) in asked]
    shares = learning(evening, outcome.answers)
    show(console, shares, told)
    agreement = f"All {len(expected):,} answers equal those of the class run as plain Python."
    page = folder / "report.html"
    graph = Recommender.explain(format="svg")
    page.write_text(report_page(f"{figures}. {agreement}", outcome.epochs, shares, told, graph), encoding="utf-8")
    console.print(f"\n{agreement}")
    console.print(f"Recommendations: {show_place(outcome.replies)} (Parquet)")
    console.print(f"Checkpoint:      {show_place(outcome.checkpoint)}")
    console.print(f"Page:            {show_place(page)} (rate, answers and the program's graph; open it in a browser)")
    return 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=main.__doc__)
    arguments.add_argument("--ratings", type=int, default=RATINGS, help="how many there are; from 500 on")
    sys.exit(main(max(arguments.parse_args().ratings, 500)))

"""Streaming word count, twice: words split by Spark into partitioned counts, and lines into partial counts."""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

from examples.files import OUT, fresh_folder, in_order, read_rows, stream, write_parts
from millpond import Counter, Partial, Partitioned, Program, each, entry, merged, parquet
from millpond.spark.session import local_session

SEED = 3
LINES = 2_000
EPOCHS = 4

VOCABULARY = (
    "the", "water", "mill", "turns", "and", "wheel", "grain", "stone", "pond", "stream", "sack", "flour", "miller",
    "river", "bread", "quiet", "sluice", "reed", "heron", "weir",
)  # fmt: skip

ASKED = ("the", "mill", "pond", "heron", "turbine")
"""The words whose counts are asked for in every epoch; the last is never written."""

QUESTION_COLUMNS = pa.schema([("part", pa.int64()), ("word", pa.string())])

Counts = list[tuple[int, str, int]]
"""Part of the text, word, and how often it stood there or before, sorted."""


class WordCount(Program):
    """Counts words, each at its owner; whoever feeds it splits the lines."""

    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> None:
        """Count a word."""
        self.counts[word] += 1

    @entry
    def count(self, word: str) -> int:
        """Answer how often a word was counted."""
        return self.counts[word]


class LineCount(Program):
    """Counts the words of lines where the lines are; counts are added up when somebody asks."""

    counts = Partial(Counter[str])

    @entry
    def add(self, line: str) -> None:
        """Count the words of a line."""
        for word in line.split():
            self.counts[word] += 1

    @entry
    def count(self, word: str) -> int:
        """Answer how often a word was counted."""
        return merged(each(self.counts).get(word, 0), sum)


def make_text(seed: int, lines: int, parts: int) -> list[list[str]]:
    """Make up a text in parts; the first words of the vocabulary are the most frequent."""
    chance = random.Random(seed)
    weights = [1 / (place + 1) for place in range(len(VOCABULARY))]
    text = [" ".join(chance.choices(VOCABULARY, weights, k=8)) for _ in range(lines)]
    return [text[lines * part // parts : lines * (part + 1) // parts] for part in range(parts)]


def plain_run(text: Sequence[Sequence[str]]) -> Counts:
    """Count in one loop: what both runs on Spark must equal."""
    tally: Tally[str] = Tally()
    counts: Counts = []
    for part, lines in enumerate(text):
        tally.update(word for line in lines for word in line.split())
        counts += [(part, word, tally[word]) for word in ASKED]
    return sorted(counts)


def write_text(folder: Path, text: Sequence[Sequence[str]]) -> Path:
    """Write each part as a text file, and the questions that follow it."""
    (folder / "text").mkdir(parents=True)
    for part, lines in enumerate(text):
        path = folder / "text" / f"part-{part:04}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        in_order(path, part)
    questions = [[{"part": part, "word": word} for word in ASKED] for part in range(len(text))]
    write_parts(folder / "questions", QUESTION_COLUMNS, questions)
    return folder


def lines_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the text as a stream of lines, one file per epoch."""
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "text")).toDF("line")


def count_words(spark: SparkSession, folder: Path) -> Counts:
    """Split lines into words with Spark, and count each word at its owner."""
    words = lines_of(spark, folder).select(F.explode(F.split("line", " ")).alias("word"))
    return _run(WordCount, spark, words, folder, "words")


def count_lines(spark: SparkSession, folder: Path) -> Counts:
    """Feed whole lines, and merge the counts on reading."""
    return _run(LineCount, spark, lines_of(spark, folder), folder, "lines")


def _run(program: type[Program], spark: SparkSession, text: DataFrame, folder: Path, name: str) -> Counts:
    place = folder / name
    job = program.on(spark, checkpoint=place / "checkpoint", local_root=place / "local")
    job.feed("add", text)
    # Within an epoch the rows of the first feed come first: a question sees the part of the text that it follows.
    job.feed("count", stream(spark, folder / "questions"), keep=["part", "word"], to=parquet(place / "counts"))
    job.run()
    return sorted((row["part"], row["word"], row["reply"]) for row in read_rows(place / "counts"))


def show(console: Console, counts: Counts) -> None:
    """Show how the counts grew."""
    parts = sorted({part for part, _, _ in counts})
    found = {(part, word): count for part, word, count in counts}
    table = Table("word", *(f"after part {part + 1}" for part in parts))
    for word in ASKED:
        table.add_row(word, *(f"{found[part, word]:,}" for part in parts))
    console.print(table)


def main() -> int:
    """Run the example; the exit code tells whether Spark and the plain loop agree."""
    console = Console(highlight=False)
    text = make_text(SEED, LINES, EPOCHS)
    folder = write_text(fresh_folder(OUT / "word_count"), text)
    spark = local_session("word_count")
    try:
        by_word, by_line = count_words(spark, folder), count_lines(spark, folder)
    finally:
        spark.stop()
    if not by_word == by_line == plain_run(text):
        console.print("[red]The counts differ from those of the plain loop.[/]")
        return 1
    show(console, by_word)
    console.print(f"{LINES:,} lines in {EPOCHS} epochs; partitioned and partial counts equal those of the plain loop.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

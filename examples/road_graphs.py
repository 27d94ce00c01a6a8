"""A road network as it is right now: which towns hang together in each minute, and how far each is from the depots.

Run it: `python -m examples.road_graphs reports/ checkpoints/ results/`, with Parquet files of reports, each of one
road at one time: `town`, `next`, `minutes` to drive, and `at`. Roads without reports in a minute count as closed.
"""

from __future__ import annotations

import sys
from typing import Final

import millpond
from millpond import EventTime, parquet
from millpond.loops import Ready, connected_components, shortest_paths

DEPOTS: Final = ("Oslo", "Rome")

QUESTIONS: Final[dict[str, Ready]] = {"together": connected_components(), "far": shortest_paths(DEPOTS)}
"""What is asked of the network of each minute; roads go both ways."""


def main(reports: str, checkpoints: str, results: str) -> None:
    """Send the answers for each minute to a sink each."""
    from millpond.spark.session import local_session

    spark = local_session()
    schema = spark.read.parquet(reports).schema
    for name, question in QUESTIONS.items():
        stream = spark.readStream.schema(schema).parquet(reports)
        time = EventTime("at", disorder="10 s")
        graph = millpond.graph(stream, source="town", target="next", weight="minutes", time=time)
        minutes = graph.snapshots("1 minute", directed=False)
        minutes.job(question, to=parquet(f"{results}/{name}"), checkpoint=f"{checkpoints}/{name}").run(close=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

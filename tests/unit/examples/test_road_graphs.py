"""The network of each minute, in any cut and through a crash, against networkx."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import networkx
import pytest

from examples.road_graphs import DEPOTS, QUESTIONS
from millpond.loops.program import loop_program
from millpond.loops.vertices.kinds import SnapshotKind
from millpond.testing import at, crash, simulate
from millpond.windowing import tumbling

MAY = datetime(2024, 5, 1, 12, tzinfo=UTC)
TOWNS = (*DEPOTS, "Bern", "Lyon", "Graz", "Brno", "Turku", "Gdynia")


def reports(seed):
    draw = random.Random(seed)
    moments = sorted(draw.randrange(300) for _ in range(50))
    # Of the third minute there is no report at all.
    return [
        (MAY + timedelta(seconds=second), *draw.sample(TOWNS, 2), float(draw.randrange(1, 90)))
        for second in moments
        if second // 60 != 2
    ]


def networks(rows):
    """The network of each minute; of several reports of a road, the fastest counts."""
    found = {}
    for moment, town, other, minutes in rows:
        network = found.setdefault(moment.replace(second=0), networkx.Graph())
        known = network.get_edge_data(town, other, {"weight": minutes})["weight"]
        network.add_edge(town, other, weight=min(known, minutes))
    return found


def together(network):
    return {town: min(part) for part in networkx.connected_components(network) for town in part}


def far(network):
    depots = {one for one in DEPOTS if one in network}
    near = networkx.multi_source_dijkstra_path_length(network, depots) if depots else {}
    return {town: near.get(town, float("inf")) for town in network}


@pytest.mark.parametrize(("name", "oracle"), [("together", together), ("far", far)])
def test_the_network_of_each_minute(name, oracle):
    rows = reports(3)
    kind = SnapshotKind(QUESTIONS[name], str, directed=False)
    steps = [at(moment, ("add", town, (other, minutes, None))) for moment, town, other, minutes in rows]
    run = simulate(
        loop_program(kind, tumbling("1 minute")), steps, epochs=4, partitions=2, close=True,
        faults=[crash(at="computed", epoch=3)],
    )  # fmt: skip
    found = {}
    for fired in run.fired:
        for begin, _, town, answer in fired.reply:
            found.setdefault(begin, {})[town] = answer
    assert found == {minute: oracle(network) for minute, network in networks(rows).items()}
    assert len(found) == 4

"""The examples of windows over DataFrames give what their plain functions give."""

from __future__ import annotations

import math

from pyspark.sql import functions as F  # noqa: N812

from examples import sensors, trades


def test_warnings_of_a_dataframe_are_those_of_the_watch(spark):
    readings = sensors.make_readings(sensors.SEED, 2_000)
    frame = spark.createDataFrame(readings, "sensor int, at long, celsius double")
    told = sensors.warnings_in(frame.withColumn("at", F.timestamp_micros("at")))
    found = {(row.sensor, row.us): row.mean for row in told.withColumn("us", F.unix_micros("at")).collect()}
    wanted = {(sensor, at): mean for sensor, at, mean in sensors.watched(readings, 100)}
    assert found.keys() == wanted.keys()
    assert all(math.isclose(found[each], wanted[each]) for each in found)
    assert len(found) > 5


def test_averages_of_a_dataframe_are_those_of_the_plain_functions(spark):
    made = trades.make_trades(trades.SEED, 1_200)
    rows = [(trade["stock"], trade["at"], trade["price"]) for trade in made]
    frame = spark.createDataFrame(rows, "stock string, at long, price double")
    both = trades.averages_in(frame.withColumn("at", F.timestamp_micros("at")))
    found = {row.us: row.macd for row in both.withColumn("us", F.unix_micros("at")).collect()}
    wanted = trades.crossings(made)
    assert len(wanted) > 10
    assert all(math.isclose(found[each.at], each.macd, abs_tol=1e-9) for each in wanted)

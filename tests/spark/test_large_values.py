"""Values of 64 MB: in by a feed, changed in state, out by a sink, and back from the checkpoint alone."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq

from millpond import Map, Partitioned, Program, entry, parquet

LARGE = 64 * 1024 * 1024


class Blobs(Program):
    blobs = Partitioned(Map[int, bytes])

    @entry
    def put(self, key: int, value: bytes) -> int:
        self.blobs[key] = value
        return len(value)

    @entry
    def change(self, key: int, at: int) -> bytes:
        value = self.blobs[key]
        self.blobs[key] = value[:at] + b"!" + value[at + 1 :]
        return self.blobs[key]


def test_values_of_64_mb_go_in_are_changed_and_come_out(spark, tmp_path):
    def run(name, feed, table, **options):
        pq.write_table(table, tmp_path / f"{name}.parquet", compression="none", row_group_size=1)
        job = Blobs.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2, progress=False)
        job.feed(feed, spark.read.parquet(str(tmp_path / f"{name}.parquet")), to=parquet(tmp_path / name), **options)
        job.run(name)
        return pq.read_table(tmp_path / name)

    values = [bytes([number]) * LARGE for number in (1, 2)]
    lengths = run("in", "put", pa.table({"key": [1, 2], "value": pa.array(values, pa.binary())}))
    assert lengths["reply"].to_pylist() == [LARGE, LARGE]

    shutil.rmtree(tmp_path / "local")
    changed = run("out", "change", pa.table({"key": [1, 2], "at": [0, LARGE - 1]}), keep=["key"])
    replies = dict(zip(changed["key"].to_pylist(), changed["reply"].to_pylist(), strict=True))
    assert replies == {1: b"!" + values[0][1:], 2: values[1][:-1] + b"!"}

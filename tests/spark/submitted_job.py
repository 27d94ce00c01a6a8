"""What is handed to spark-submit: a job that says nothing of the cluster it runs on.

`spark-submit submitted_job.py FOLDER` streams FOLDER/in through a program, a part per epoch, and writes to
FOLDER/epochs what each epoch told.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from tests.programs.keyed import Recommender
from tests.spark.feeding import feed_all, streams


def main(folder: Path) -> None:
    spark = SparkSession.builder.appName("submitted").getOrCreate()
    job = Recommender.on(spark, checkpoint=folder / "ck")
    report = feed_all(job, Recommender, streams(spark, Recommender, folder / "in"), folder / "out").run()
    (folder / "epochs").write_text(json.dumps([asdict(epoch) for epoch in report.epochs]))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Running a job: what its tasks tell, or an event that the commit protocol understands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row

from millpond.checkpoint.records.work import JobAborted
from millpond.spark.interpreter import worker_refusal

_CANCELLED = ("cancelled", "canceled", "InterruptedException", "was stopped", "SparkContext was shut down")


Result = TypeVar("Result")


def collect(frame: DataFrame) -> list[Row]:
    """Return the rows of a frame."""
    return list(running(frame.collect))


def running(job: Callable[[], Result]) -> Result:
    """Return what a job gives; one that Spark gives up is a `JobAborted`."""
    try:
        return job()
    except AnalysisException:
        raise
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if any(word in text for word in _CANCELLED):
            raise
        refused = worker_refusal(text)
        if refused is not None:
            # No attempt would end otherwise.
            raise refused from None
        # Spark's own trace is pages long, and its reason is in `found`.
        raise JobAborted(
            "MP434", "Spark aborted the job of an epoch", found=_reason(text), hint="see the Spark logs of the task"
        ) from None


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return " / ".join((telling or lines)[:2])[:500]

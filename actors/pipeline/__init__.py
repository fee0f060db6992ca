"""Spark over what nodes write: their event logs, and the files of their replicated logs.

| Step | Reads | Writes |
|---|---|---|
| bronze | event logs, each file once | their lines as they are, with what is known of each |
| silver | bronze | one typed table per kind of event, each event once; holes in the logs |
| gold | silver | lag, latency, elections, outages, restarts, pressure, bytes sent again |
| audit | silver, logs | for each claim whether it held, and what was looked at (`verdicts`) |
| report | gold, verdicts | one page with pictures (`report`), and all the above |

`python -m actors.pipeline` runs a step. In a session of your own, over a store or a data directory:

    from actors.pipeline import register
    register(spark)
    log = spark.read.format("rocketmq_commitlog").load("/home/rocketmq/store")

`sources.options` has the options, `sources.message_chunk` and `sources.entry_chunk` the columns.
Workers need this package, too: PYSPARK_PYTHON names the Python that has it.

Everything between reading and writing is a plain function DataFrame -> DataFrame, one subject a
file. `session` alone knows where Spark runs.

Importing the package imports nothing: PySpark is an extra, `pip install 'triolog[pipeline]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats `rocketmq_commitlog` and `dledger_store` known to a session."""
    from actors.pipeline.sources import log_source

    log_source.register(spark)

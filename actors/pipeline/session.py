"""The one place where a Spark session is made.

| Profile | For | Where |
|---|---|---|
| test | the test suite: starts fast, computes little | two cores of this machine |
| local | the commands | all cores of this machine |
| cluster | spark-submit, or Connect by SPARK_REMOTE | as those say; sets what results rely on |

What runs on a session is the same in each: no job knows its profile.

A process has one Java, and its memory and options are those of the first session in it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.pipeline.errors import PipelineError
from actors.pipeline.java import cache_folder, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = Path(__file__).parent / "conf"
"""Spark's configuration folder: quiet logs. For a Java that this module starts."""

RESULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""In every profile: what jobs rely on. A Python Data Source with filters is refused without it."""

_HERE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}
"""On one machine: nothing listens outside, no bars in the terminal, no task for each folder that is
listed (by default there are as many as folders). No user waits for an answer within milliseconds: a
collector that stops all is a tenth of the processor time cheaper than Java's usual one (silver)."""

_TEST: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Little data: a second of optimising Java code is a second lost (measured: 13 s -> 10.5 s)."""


class Profile(StrEnum):
    TEST = "test"
    LOCAL = "local"
    CLUSTER = "cluster"


def open_session(
    profile: Profile, *, scratch: Path | None = None, options: Mapping[str, str] | None = None
) -> SparkSession:
    """A session; the one that is open in this process, if there is one.

    Args:
        profile: where it runs, and for what.
        scratch: folder for what Spark writes beside its results; None: the temporary folder.
        options: more of Spark's configuration; they win.

    Raises:
        NoJava: see `java.java_home`.
        PipelineError: PySpark is not installed, or Java did not start.

    Effects:
        Starts Java, which ends with this process; the process's environment stays as it was.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError("PySpark is not installed: pip install 'triolog[pipeline]'")
    if "SPARK_REMOTE" in os.environ and importlib.util.find_spec("grpc") is None:
        raise PipelineError("Spark Connect needs more: pip install 'triolog[pipeline,connect]'")
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("triolog")
    for key, value in _options(profile, scratch, options or {}).items():
        builder = builder.config(key, value)
    if profile is not Profile.CLUSTER:
        cores = 2 if profile is Profile.TEST else "*"
        builder = builder.master(f"local[{cores}]")
    try:
        with _environment(_variables(profile)):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise PipelineError("Java did not start; what it said stands above") from error


def _options(profile: Profile, scratch: Path | None, more: Mapping[str, str]) -> dict[str, str]:
    if profile is Profile.CLUSTER:
        return {**RESULTS, **more}
    folder = scratch or Path(tempfile.gettempdir())
    folders = {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    test = _TEST if profile is Profile.TEST else {}
    return {**RESULTS, **_HERE, **folders, **test, **more}


def _variables(profile: Profile) -> dict[str, str]:
    """What Java and the workers must find in their environment.

    Workers run what PYSPARK_PYTHON names, by default the first python3 of PATH, which need not be
    this one and then lacks its packages.
    """
    python = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
        return python  # somebody else has started Java
    home = java_home(os.environ, cache_folder(os.environ))
    found = {**python, "JAVA_HOME": str(home)}
    if profile is Profile.CLUSTER:
        return found
    conf = os.environ.get("SPARK_CONF_DIR", str(CONF))
    return {**found, "SPARK_CONF_DIR": conf, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """For what is started meanwhile. Other Javas of this process must not get ours."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

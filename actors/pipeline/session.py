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

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.pipeline import java_words
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

_JAVA: Final = "spark.driver.extraJavaOptions"
_HERE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.driver.memory": "2g",
    _JAVA: "-XX:+UseParallelGC",
}
"""On one machine: nothing listens outside, no bars in the terminal, no task for each folder that is
listed (by default there are as many as folders). No user waits for an answer within milliseconds: a
collector that stops all is a tenth of the processor time cheaper than Java's usual one (silver)."""

_TEST: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    _JAVA: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Little data: a second of optimising Java code is a second lost (measured: 13 s -> 10.5 s)."""


LAST_WORDS_S: Final = 5.0
"""To wait for what a Java that did not start has said: it has ended, so nothing more comes."""
_listeners: Final[list[subprocess.Popen[bytes]]] = []
"""One for each Java; kept, for Python complains of one that is forgotten before it has ended."""


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
        scratch: folder for what Spark and Java write beside results, which stays; None: one of this
            process's own in the temporary folder, which goes with it.
        options: more of Spark's configuration; they win.

    Raises:
        NoJava: see `java.java_home`.
        PipelineError: PySpark is not installed, Java did not start, or SPARK_REMOTE names no server
            or is not for this profile.
        PySparkException, Py4JError: the cluster does not answer, or refuses.

    Effects:
        Starts Java, which ends with this process; the process's environment stays as it was.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError("PySpark is not installed: pip install 'triolog[pipeline]'")
    is_remote = "SPARK_REMOTE" in os.environ
    if is_remote and profile is not Profile.CLUSTER:
        raise PipelineError(
            f"SPARK_REMOTE is set, and profile {profile} starts Spark here: add --profile cluster, "
            "or unset it"
        )
    if is_remote and importlib.util.find_spec("grpc") is None:
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
        with _environment(_variables(profile)), plain_words():
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise PipelineError("Java did not start; what it said stands above") from error
    except ValueError as error:
        if not is_remote:
            raise
        raise PipelineError(f"SPARK_REMOTE: {error}") from error


def _options(profile: Profile, scratch: Path | None, more: Mapping[str, str]) -> dict[str, str]:
    if profile is Profile.CLUSTER:
        return {**RESULTS, **more}
    folder = scratch or _own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        **RESULTS,
        **_HERE,
        **(_TEST if profile is Profile.TEST else {}),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    # Where Java unpacks libraries, and Spark has a folder for each session, which it leaves there.
    place = str(folder).replace("\\", r"\\").replace('"', r"\"")
    found[_JAVA] += f' "-Djava.io.tmpdir={place}"'
    return {**found, **more}


@functools.cache
def _own_folder() -> Path:
    """This process's; it is removed when the process ends, if that is not killed."""
    folder = tempfile.mkdtemp(prefix="triolog-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


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


@contextlib.contextmanager
def plain_words() -> Iterator[None]:
    """What is started meanwhile has a stderr from which only telling lines come: `java_words`.

    For the whole life of what is started, and of nothing else: when this ends, this process's
    stderr is as it was. If it ends with an error, what was said is passed on by then.

    Effects: a process, until all that was started has ended; no Ctrl-C of the terminal's ends it.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # this process has none
        yield
        return
    read_end, write_end = os.pipe()
    listener = subprocess.Popen(
        [sys.executable, "-I", "-S", java_words.__file__],
        stdin=read_end,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    _listeners.append(listener)
    os.close(read_end)
    os.dup2(write_end, 2)
    os.close(write_end)
    try:
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    except Exception:
        with contextlib.suppress(subprocess.TimeoutExpired):
            listener.wait(LAST_WORDS_S)
        raise

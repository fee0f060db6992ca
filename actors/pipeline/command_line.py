"""`python -m actors.pipeline STEP DATA_DIR -o OUT`.

A step runs those before it: bronze reads only what is new, the others are worked out anew. `watch`
needs none of them. Exit codes: 0; 1, Spark failed, or an audit found a broken promise; 2, a mistake
in what was asked for, or no Java. What failed is one line.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence

from actors.pipeline.alarms.limits import add_options, limits_of
from actors.pipeline.errors import PipelineError
from actors.pipeline.session import Profile, open_session

STEPS = ("bronze", "silver", "gold", "audit", "compact", "watch")
_LINE_MAX = 300


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m actors.pipeline",
        description="Tables from the event logs of a data directory, made with Spark.",
        epilog="bronze: lines as they are; silver: typed, each event once; gold: lag, latency, "
        "elections, outages, restarts, pressure, bytes sent again; audit: the promises judged, "
        "exit code 1 if one is broken; compact: bronze by day; watch: live alarms, until Ctrl-C.",
    )
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("data", metavar="DATA_DIR", help="with NODE/events/ in it")
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help="folder of the tables")
    parser.add_argument(
        "--profile",
        choices=[each.value for each in Profile],
        default=Profile.LOCAL.value,
        help="where Spark runs: local (default), or cluster, as spark-submit or SPARK_REMOTE say",
    )
    add_options(parser)
    return parser.parse_args(words)


def run_command_line(words: Sequence[str] | None = None) -> int:
    """Parse, run, and turn what goes wrong into one line; returns the exit code."""
    asked = parse(words)
    try:
        return _run(asked)
    except PipelineError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pipeline: interrupted; the next run goes on from here", file=sys.stderr)
        return 130


def _run(asked: argparse.Namespace) -> int:
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError("PySpark is not installed: pip install 'triolog[pipeline]'")
    from pyspark.errors import PySparkException

    from actors.pipeline import steps
    from actors.pipeline.places import Place, event_folders

    data, out = Place(asked.data).absolute(), Place(asked.out).absolute()
    event_folders(data)  # before Java is started, which takes seconds
    if f"{out}/".startswith(f"{data}/"):
        raise PipelineError(f"{out}: the tables cannot be in the data directory {data}")
    spark = open_session(Profile(asked.profile))
    try:
        if asked.step == "compact":
            steps.run_compact(spark, out, _tell)
            return 0
        if asked.step == "watch":
            steps.run_watch(
                spark, data, out, limits_of(asked), asked.seconds, _tell, as_json=asked.json
            )
            return 0
        steps.run_bronze(spark, data, out, _tell)
        if asked.step in ("silver", "gold", "audit"):
            steps.run_silver(spark, out, _tell)
        if asked.step in ("gold", "audit"):
            steps.run_gold(spark, out, _tell)
        if asked.step == "audit" and steps.run_audit(spark, data, out, _tell).failures:
            return 1
    except PySparkException as error:
        first = (str(error).strip().splitlines() or ["no reason given"])[0]
        print(f"pipeline: Spark failed: {first[:_LINE_MAX]}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)

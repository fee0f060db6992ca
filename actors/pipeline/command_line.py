"""`python -m actors.pipeline STEP DATA_DIR -o OUT`, and `report DATA_DIR -o report.html`.

A step runs those before it: bronze reads only what is new, the others are worked out anew. `watch`
needs none of them, and `compact` reads nothing new. What failed is one line. Exit codes: 0; 1,
Spark or the disk failed, or an audit found a broken promise; 2, a mistake in what was asked for, or
no Java; 130, 143 or 129, Ctrl-C, SIGTERM or the terminal's end interrupted it, at any time: nothing
of it is left running, and the next run goes on. Ctrl-C is how a running `watch` ends: 0.

The tables behind a report are kept beside it, so that the next one reads only what is new.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.own_process import usage_of
from actors.pipeline.alarms.limits import add_options, given_options, limits_of
from actors.pipeline.ending import Terminated, check_asked, deferred, ended_in_order
from actors.pipeline.errors import PipelineError
from actors.pipeline.failures import line_of_failure, quiet_py4j, where_full
from actors.pipeline.session import CLOSING_S, Profile, close_session, open_session
from actors.readable import readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from actors.pipeline.locations import Location

EVENTS_LOOK_S = 0.5
"""The seconds between two looks for the first events."""
SHORT_BYTES = 16 << 20
"""The bytes of event files on the disk, half a million events, up to which `Profile.SHORT` is
quicker."""
STEPS = ("bronze", "silver", "gold", "audit", "report", "compact", "watch")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=usage_of("pipeline"),
        description="Tables from the event logs of a data directory, made with Spark.",
        epilog="bronze: lines as they are; silver: typed, each event once; gold: lag, latency, "
        "elections, outages, restarts, pressure, bytes sent again; audit: the promises judged, "
        "exit code 1 if one is broken; report: all that as one page, with pictures; compact: "
        "bronze by day; watch: live alarms, until Ctrl-C, as files are closed: none of a master "
        "that is fenced after it took appends, and none once all nodes are silent. A line "
        "ends with the event that shows it, or with which it began, NODE/BOOT/SEQ: the one with "
        'that "boot" and "seq" in DATA_DIR/NODE/events. '
        "Exit codes: 0 done; 1 an audit found a broken promise, or Spark or the disk failed; 2 a "
        "mistake in what was asked for, or no Java; 130, 143 or 129 interrupted by Ctrl-C, SIGTERM "
        "or the terminal's end; Ctrl-C ends a running watch with 0.",
    )
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("data", metavar="DATA_DIR", help="with NODE/events/ in it")
    parser.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="OUT",
        help="folder of the tables; of `report` the page, such as report.html",
    )
    parser.add_argument(
        "--tables",
        metavar="OUT",
        help="report: folder of the tables (default: beside the page, report.tables)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="watch: findings as JSON lines; audit: verdicts as JSON; report: verdicts and summary "
        "as JSON; of the last two, what is being done to stderr",
    )
    parser.add_argument(
        "--profile",
        choices=[each.value for each in Profile],
        default=Profile.LOCAL.value,
        help="where Spark runs: local (default; short where there are few events), or cluster, as "
        "spark-submit or SPARK_REMOTE say",
    )
    add_options(parser)
    asked = parser.parse_args(argv)
    for name, given in (("DATA_DIR", asked.data), ("--out", asked.out), ("--tables", asked.tables)):
        if given == "":
            parser.error(f"{name}: an empty name")
    if asked.tables and asked.step != "report":
        parser.error("--tables is for the step `report`")
    if asked.json and asked.step not in ("audit", "report", "watch"):
        parser.error("--json is for the steps `audit`, `report` and `watch`")
    for name in given_options(asked):
        if asked.step != "watch":
            parser.error(f"{name} is for the step `watch`")
    return asked


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Parse arguments and run; report any error in one line, and return the exit code."""
    try:
        with ended_in_order():
            return _run(parse(argv))
    except PipelineError as error:
        _tell_aside(f"pipeline: {error}")
        return 2
    except KeyboardInterrupt as error:
        with suppress(OSError):  # of a terminal that is gone
            _tell_aside("pipeline: interrupted; the next run goes on from here")
        return 128 + (error.number if isinstance(error, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # nobody reads on: no words, and none when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _tell_aside(f"pipeline: {place}{error.strerror or error}")
        return 1


def _run(asked: argparse.Namespace) -> int:
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError("PySpark is not installed: pip install 'triolog[pipeline]'")

    from actors.pipeline import generations
    from actors.pipeline.locations import (
        Location,
        check_claimed,
        event_folders,
        event_pattern,
        held,
        is_claimed,
    )

    data, out = Location(asked.data).absolute(), Location(_tables(asked)).absolute()
    if f"{out}/".startswith(f"{data}/"):
        raise PipelineError(f"{out}: the tables cannot be in the data directory {data}")
    if asked.step == "watch" and asked.seconds != 0:
        _wait_for_events(data, math.inf if asked.seconds is None else asked.seconds)
    if asked.step in ("compact", "watch"):
        event_folders(data)  # before Java is started, which takes seconds
    else:
        event_pattern(data)
    if asked.step == "compact":
        check_claimed(out / "bronze", data)
    elif asked.step != "watch":  # again when bronze is written: nobody had the lock yet
        is_claimed(out / "bronze", data)
    if asked.step == "report":
        _check_page(Location(asked.out).absolute(), data)
    if asked.step == "watch":  # whose layer has a lock of its own
        from actors.pipeline.alarms.watch import taken

        with taken(data, out):
            return _with_spark(data, out, asked)
    with held(out, "another run"):
        if asked.step != "compact":
            generations.check(data, out)
        return _with_spark(data, out, asked)


def _with_spark(data: Location, out: Location, asked: argparse.Namespace) -> int:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    quiet_py4j()
    spark: SparkSession | None = None
    is_cut_off = False
    try:
        try:
            (_tell_aside if asked.json else _tell)(f"{asked.step}: starting Spark")
            spark = open_session(_profile(asked, data))
            if asked.step == "report":
                return _report(spark, data, out, asked)
            if asked.step == "watch":
                return _watch(spark, data, out, asked)
            return _tables_only(spark, data, out, asked)
        except (PySparkException, Py4JError, ConnectionRefusedError, ConnectionResetError) as error:
            check_asked(error)
            line = line_of_failure(error)
            full = where_full(line, [str(out), tempfile.gettempdir()])
            _tell_aside(f"pipeline: Spark failed: {line}{full}")
            return 1
    except KeyboardInterrupt:  # also in place of what failed because of it
        is_cut_off = True
        raise
    finally:
        if spark is not None:
            with deferred(CLOSING_S):
                close_session(spark, at_once=is_cut_off)


def _profile(asked: argparse.Namespace, data: Location) -> Profile:
    """Return the profile that was asked for, or SHORT in place of LOCAL for few events."""
    from actors.pipeline.alarms.event_logs import published
    from actors.pipeline.locations import event_folders

    profile = Profile(asked.profile)
    if profile is not Profile.LOCAL or asked.step == "watch":
        return profile
    files = (file for folder in event_folders(data) for file in published(folder))
    return Profile.SHORT if sum(file.stamp[0] for file in files) <= SHORT_BYTES else profile


def _tables_only(
    spark: SparkSession, data: Location, out: Location, asked: argparse.Namespace
) -> int:
    from actors.pipeline import steps
    from actors.pipeline.verdicts import as_dict, line_of_all

    step, tell = asked.step, _tell_aside if asked.json else _tell
    if step == "compact":
        steps.run_compact(spark, out, tell)
        return 0
    steps.run_bronze(spark, data, out, tell)
    if step in ("silver", "gold", "audit"):
        steps.run_silver(spark, out, tell)
    if step in ("gold", "audit"):
        steps.run_gold(spark, out, tell)
    if step != "audit":
        return 0
    found = steps.run_audit(spark, data, out, tell)
    tell(f"audit: {line_of_all(found)}")
    if asked.json:
        _print(json.dumps({"failed": bool(found.failures), **as_dict(found)}, indent=2))
    return 1 if found.failures else 0


def _wait_for_events(data: Location, seconds: float) -> None:
    """Wait up to `seconds` for the first files of nodes that have just started."""
    from actors.pipeline.clock import pause, stopwatch_s
    from actors.pipeline.locations import has_begun, is_logged

    if has_begun(data) and not is_logged(data):
        _tell_aside(f"watch: no node has published events in {data} yet; waits for the first ones")
        end_s = stopwatch_s() + seconds
        while has_begun(data) and not is_logged(data) and stopwatch_s() < end_s:
            pause(EVENTS_LOOK_S)


def _watch(spark: SparkSession, data: Location, out: Location, asked: argparse.Namespace) -> int:
    from actors.pipeline import steps

    limits, aside = limits_of(asked), _tell_aside
    steps.run_watch(spark, data, out, limits, asked.seconds, _tell, aside, as_json=asked.json)
    return 0


def _tables(asked: argparse.Namespace) -> str:
    if asked.step != "report":
        return str(asked.out)
    page = str(asked.out)
    return asked.tables or page.removesuffix(".html").rstrip("/") + ".tables"


def _check_page(page: Location, data: Location) -> None:
    """Check that the page can be written, before hours of work for it. Raises: PipelineError."""
    if importlib.util.find_spec("matplotlib") is None:
        raise PipelineError("matplotlib is not installed: pip install 'triolog[pipeline]'")
    if f"{page}/".startswith(f"{data}/"):
        raise PipelineError(f"{page}: the page cannot be in the data directory {data}")
    if page.is_folder():
        raise PipelineError(f"{page}: a folder; -o names the page, such as {page}/report.html")
    if page.is_special():
        raise PipelineError(f"{page}: a device, a pipe or a socket; -o names the page, a file")
    page.check_parent()


def _report(spark: SparkSession, data: Location, out: Location, asked: argparse.Namespace) -> int:
    from actors.pipeline import steps
    from actors.pipeline.locations import Location
    from actors.pipeline.report.summary import summary
    from actors.pipeline.verdicts import line_of_all

    page = Location(asked.out).absolute()
    tell = _tell_aside if asked.json else _tell
    facts = steps.run_report(spark, data, out, page, tell)
    tell(f"audit: {line_of_all(facts.verdicts)}")
    if asked.json:
        _print(json.dumps(summary(facts, str(page)), indent=2))
    return 1 if facts.verdicts.failures else 0


def _tell_aside(line: str) -> None:
    """Print a line to stderr, apart from the result."""
    print(readable(line), file=sys.stderr, flush=True)


def _tell(line: str) -> None:
    """Print one line, readable even if names of nodes, groups or files in it are not."""
    _print(readable(line))


def _print(text: str) -> None:
    """Print a text. Raises: OSError, whose text names the output."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error

"""Ctrl-C and SIGTERM, at any time: one line, no Java, no folder, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import pytest
from alarms_kit import publish
from lines_kit import Boot
from py4j.protocol import Py4JNetworkError

from actors.events.node import NodeStopped
from actors.pipeline import command_line, ending, java_group, steps
from actors.pipeline.ending import Terminated, check_asked, deferred, ended_in_order
from actors.pipeline.java_group import JavaGroup
from actors.pipeline.session import _whole_or_none, filtered_stderr

LINE = "pipeline: interrupted; the next run goes on from here\n"
CHEAPER = """
import sys
from actors.pipeline import command_line, steps
from actors.pipeline.session import Profile, open_session
command_line.open_session = lambda profile: open_session(Profile.TEST)
def run_watch(spark, *_, **__):
    print("runs", file=sys.stderr, flush=True)
    spark._jvm.java.lang.Thread.sleep(1_000_000)
steps.run_watch = run_watch
sys.exit(command_line.run_command_line())
"""
"""The command, with a Java that starts fast, and of which a watch wants nothing."""
TWICE = """
from actors.pipeline.session import Profile, close_session, open_session
for _ in range(2):
    spark = open_session(Profile.TEST)
    print(spark.range(3).count(), flush=True)
    close_session(spark, at_once=True)
"""
HANGING = """\
#!/bin/sh
echo $$ >> "$STARTED"
exec sleep 1000
"""


@attrs.define
class Command:
    """A step over one event, in a process of its own, with a temporary folder of its own."""

    folder: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, step: str, folder: Path, **variables: str) -> Command:
        boot = Boot("n0")
        boot.say(0, "", NodeStopped(reason="asked"))
        publish(folder / "data", boot)
        (folder / "tmp").mkdir()
        words = [step, str(folder / "data"), "-o", str(folder / "out")]
        marked = {"TMPDIR": str(folder / "tmp"), "MARK": str(folder), **variables}
        process = subprocess.Popen(
            [sys.executable, "-c", CHEAPER, *words],
            env={**os.environ, **marked},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return cls(folder, process)

    def end(self, number: int) -> tuple[int, str]:
        """Its exit code, and the rest of what it said on stderr."""
        self.process.send_signal(number)
        self.process.send_signal(number)  # as `timeout` does
        _, said = self.process.communicate()
        return self.process.returncode, said

    def left(self) -> list[str]:
        """What is left of it: programs, those that it started included, and temporary files."""
        mark = f"MARK={self.folder}".encode()
        found = [path.name for path in (self.folder / "tmp").iterdir()]
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (each / "environ").read_bytes().split(b"\0"):
                    found.append((each / "cmdline").read_text())
            except OSError:  # it has ended, or is somebody else's
                continue
        return found


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_java_is_ended_while_it_starts(number: int, tmp_path: Path) -> None:
    """One that hangs, where Spark's scripts still ask another Java how to start it."""
    home, started = tmp_path / "java", tmp_path / "started"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text(HANGING)
    (home / "bin/java").chmod(0o755)
    command = Command.start("bronze", tmp_path, JAVA_HOME=str(home), STARTED=str(started))
    while not started.exists():
        assert command.process.poll() is None
        time.sleep(0.01)
    assert command.end(number) == (128 + number, LINE)
    assert command.left() == []


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_java_and_what_it_wrote_go_at_sigterm_in_the_middle_of_a_call(tmp_path: Path) -> None:
    command = Command.start("watch", tmp_path)
    assert command.process.stderr is not None
    assert command.process.stderr.readline() == "runs\n"
    assert command.end(signal.SIGTERM) == (128 + signal.SIGTERM, LINE)
    assert command.left() == []


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_process_whose_java_was_ended_gets_another_one(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", TWICE], env=env, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("3\n3\n", 0), done.stderr


def test_an_interrupt_leaves_somebody_elses_java(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    theirs = object()
    monkeypatch.setattr(SparkContext, "_gateway", theirs)
    with pytest.raises(KeyboardInterrupt), _whole_or_none(JavaGroup(None)):
        raise KeyboardInterrupt
    assert SparkContext._gateway is theirs


def test_who_joins_a_group_that_was_ended_is_refused() -> None:
    with filtered_stderr() as group:
        assert group.listener is not None
        number = group.listener.pid
        member = subprocess.Popen(["sleep", "1000"], process_group=number)
    group.kill()
    member.wait()
    with pytest.raises(OSError, match="No such process"):
        os.killpg(number, 0)
    with pytest.raises(OSError, match="not permitted"):
        subprocess.Popen(["true"], process_group=number)
    group.kill()
    JavaGroup(None).kill()


def test_who_hears_of_no_kill_is_waited_for_so_long_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a process whose disk does not answer. It is played by one that nobody kills."""
    with filtered_stderr() as group:
        assert group.listener is not None
        listener = group.listener
        member = subprocess.Popen(["sleep", "1000"], process_group=listener.pid)
    with monkeypatch.context() as patch:
        patch.setattr(java_group, "KILL_S", 0.05)
        patch.setattr(os, "killpg", lambda *_: None)
        group.kill()
    assert [each.message for each in caplog.records] == [
        "pipeline: killed, not gone after 0.05 s, left to the system: Java's process "
        f"{listener.pid}, {member.pid}"
    ]
    assert group.listener is None
    group.kill()
    member.kill()
    member.wait()
    listener.wait()


@pytest.fixture
def unhandled() -> Iterator[None]:
    """PySpark takes Ctrl-C for itself in the process of the tests, which may have been started to
    ignore signals (nohup).
    """
    usual: dict[int, Any] = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
    usual[signal.SIGINT] = signal.default_int_handler
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_raised_and_no_other(number: int, unhandled: None) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as caught, ended_in_order():
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(number)
    if number == signal.SIGINT:
        assert type(caught.value) is KeyboardInterrupt
    else:
        assert isinstance(caught.value, Terminated)
        assert caught.value.number == number
    assert signal.getsignal(number) is before


def test_what_is_deferred_comes_to_its_end(unhandled: None) -> None:
    done = []
    with pytest.raises(Terminated), ended_in_order():
        with deferred():
            with deferred():
                signal.raise_signal(signal.SIGTERM)
                done.append(1)
            done.append(2)
        done.append(3)
    assert done == [1, 2]


def test_what_is_deferred_for_too_long_is_interrupted(
    unhandled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.pipeline.ending.DEFERRED_S", 0.01)
    with pytest.raises(Terminated), ended_in_order(), deferred():
        signal.raise_signal(signal.SIGTERM)
        while True:
            time.sleep(1)


@pytest.mark.parametrize("is_deferred", [False, True])
def test_what_cleans_up_and_hangs_is_interrupted(
    is_deferred: bool, unhandled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a call to Java does that waits for the one that was interrupted."""
    monkeypatch.setattr("actors.pipeline.ending.DEFERRED_S", 0.01)
    with pytest.raises(Terminated), ended_in_order():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            with deferred() if is_deferred else nullcontext():
                hang()


def test_what_cleans_up_has_its_time(unhandled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.pipeline.ending.DEFERRED_S", 0.01)
    done = []
    with pytest.raises(Terminated), ended_in_order():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            with deferred(60.0):
                time.sleep(0.05)
                done.append(1)
    assert done == [1]


def hang() -> None:
    """Ends itself, or a test that fails would take for ever."""
    time.sleep(20)
    pytest.fail("it was not interrupted")


class Dropping:
    """At its end a signal comes, where Python drops exceptions."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_where_python_drops_exceptions_is_not_lost(
    unhandled: None, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Terminated), ended_in_order():
        Dropping()
        while True:
            time.sleep(1)
    assert capfd.readouterr().err == ""


def test_what_fails_after_a_signal_is_its_doing(unhandled: None) -> None:
    with pytest.raises(Terminated), ended_in_order():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise OSError("Java has ended")
    with pytest.raises(KeyboardInterrupt), ended_in_order(), deferred():
        signal.raise_signal(signal.SIGINT)
        check_asked()
    check_asked()
    with pytest.raises(OSError, match="by itself"), ended_in_order():
        raise OSError("by itself")


@pytest.mark.parametrize("at", ["begins", "ends"])
def test_a_signal_while_handlers_are_changed_is_not_the_last_one_that_is_heard(
    at: str, unhandled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came between two of them, some stayed ours, and ours hear only the first one."""
    really, came = signal.signal, []

    def change(number: int, handler: Any) -> Any:
        if (handler is ending._ask) == (at == "begins") and number == signal.SIGTERM:
            came.append(number)
            really(signal.SIGINT, ending._ask)  # as it is still, or by now
            signal.raise_signal(signal.SIGINT)
            if at == "ends":
                really(signal.SIGINT, signal.default_int_handler)
        return really(number, handler)

    before = {number: signal.getsignal(number) for number in ending._UNHANDLED}
    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", change)
        with pytest.raises(KeyboardInterrupt), ended_in_order():
            assert at == "ends"
    assert len(came) == 1
    assert {number: signal.getsignal(number) for number in ending._UNHANDLED} == before
    check_asked()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_second_signal_while_handlers_are_given_back_is_ignored(
    unhandled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = signal.signal

    def change(number: int, handler: Any) -> Any:
        if number == signal.SIGTERM and handler is signal.SIG_DFL:
            signal.raise_signal(number)
        return really(number, handler)

    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", change)
        with pytest.raises(Terminated), ended_in_order():
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_thread_and_one_within_another_change_no_handler(unhandled: None) -> None:
    def within() -> None:
        with ended_in_order():
            seen.append(signal.getsignal(signal.SIGTERM))

    seen: list[Any] = []
    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
    with pytest.raises(Terminated), ended_in_order():
        within()
        signal.raise_signal(signal.SIGTERM)


def test_a_spark_that_fails_because_of_a_signal_is_ended_at_once(
    unhandled: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It waits for no call that was cut off, whatever py4j made of the interrupt."""

    def cut_off(*_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise Py4JNetworkError("cut off") from error

    closed: list[bool] = []
    monkeypatch.setattr(steps, "run_bronze", cut_off)
    monkeypatch.setattr(command_line, "open_session", lambda _: object())
    monkeypatch.setattr(command_line, "close_session", lambda _, at_once: closed.append(at_once))
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    words = ["bronze", str(tmp_path), "-o", f"{tmp_path}.out"]
    assert command_line.run_command_line(words) == 128 + signal.SIGTERM
    assert capsys.readouterr().err == LINE
    assert closed == [True]


def test_who_handles_a_signal_goes_on_doing_so(unhandled: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ended_in_order():
        signal.raise_signal(signal.SIGINT)

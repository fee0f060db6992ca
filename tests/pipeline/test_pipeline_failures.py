"""The line that says why Spark failed, from the texts that it makes of a failure."""

from __future__ import annotations

import errno
import logging

import pytest

from actors.pipeline.failures import LINE_MAX, line_of_failure, quiet_py4j

IN_A_BATCH = """\
[STREAM_FAILED] Query [id = adf4, runId = 72c5] terminated with exception: [FOREACH_BATCH_USER] \
An error occurred in the user provided function. Reason: An exception was raised by the Python \
Proxy. Return Message: Traceback (most recent call last):
  File "/a/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/a/event_files.py", line 130, in read_bytes
    with system.open_input_file(name) as file:
PermissionError: [Errno 13] Failed to open local file '/d/n0/x.jsonl.gz'. Detail: [errno 13]
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = adf4, runId = 72c5]
Current State: ACTIVE
"""
IN_JAVA = """\
An error occurred while calling o62.load.
: java.io.IOException: Cannot run program "/a/python": error=13, Permission denied
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: error=13, Permission denied
\t... 22 more
"""
TWO_CAUSES = """\
org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/o.
\tat org.apache.spark.Something(A.scala:1)
Caused by: java.io.FileNotFoundException: /o/part-0 (No space left on device)
\tat java.io.Something(A.java:1)
"""


class Gone(Exception):
    """As py4j's error, which asks a Java that has ended for its text."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            IN_A_BATCH,
            "PermissionError: [Errno 13] Failed to open local file '/d/n0/x.jsonl.gz'. "
            "Detail: [errno 13]",
        ),
        (IN_JAVA, 'IOException: Cannot run program "/a/python": error=13, Permission denied'),
        (TWO_CAUSES, "FileNotFoundException: /o/part-0 (No space left on device)"),
        ("[NO_PATH] No such path: /x. SQLSTATE: 42K03\nmore", "[NO_PATH] No such path: /x."),
        (
            "[STREAM_FAILED] Query [id = 81-b6, runId = 7a-3e] terminated with exception: "
            "[CANNOT_COMMIT] Error writing files. SQLSTATE: 58030 SQLSTATE: XXKST\n=== Streaming",
            "[CANNOT_COMMIT] Error writing files.",
        ),
        ("OutOfMemoryError: " + "x" * 999, "OutOfMemoryError: " + "x" * (LINE_MAX - 18)),
        ("", "no reason given"),
        ("\n \n", "no reason given"),
    ],
)  # fmt: skip
def test_the_first_cause_is_told_in_one_line(text: str, line: str) -> None:
    assert line_of_failure(RuntimeError(text)) == line


def test_a_java_that_has_ended_is_not_asked() -> None:
    assert line_of_failure(Gone()) == "Java has ended"
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    assert line_of_failure(refused) == "Connection refused: has Java ended?"


def test_only_py4j_tells_the_root_logger_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at Ctrl-C: a traceback for each call that it cut off."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "filters", [])
    quiet_py4j()
    told = [
        bool(root.filter(logging.LogRecord("root", logging.ERROR, path, 1, "x", (), None)))
        for path in ("/v/site-packages/py4j/java_gateway.py", "/v/actors/pipeline/alarms/watch.py")
    ]
    assert told == [False, True]


def test_nor_does_a_logger_of_py4js_tell_the_roots_handlers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where Java's end is in the way of the end of a call."""
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    monkeypatch.setattr(logging.getLogger("py4j"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("py4j"), "handlers", [])
    quiet_py4j()
    logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down")
    logging.getLogger("triolog.pipeline").error("ours")
    assert [each.message for each in caplog.records] == ["ours"]

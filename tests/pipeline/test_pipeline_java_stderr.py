"""Of what Java says on stderr, the lines that mean nothing are left out, and no other."""

from __future__ import annotations

import os
import subprocess

import pytest

from actors.pipeline.java_stderr import telling
from actors.pipeline.session import filtered_stderr

CHATTER = b"""\
Starting Streaming TransformWithStateInPandas Python worker.

Streaming TransformWithStateInPandas Python worker finish init stage of Python runner. Received \
UDF from JVM: <function f at 0x7f>, received return type of UDF: StructType([]).

Streaming TransformWithStateInPandas Python worker received parameters for UDF. State server \
port/path: 38751, key schema: StructType([]).

Streaming TransformWithStateInPandas Python worker Starting execution of UDF: <function f at 0x7f>.

Streaming TransformWithStateInPandas Python worker Completed execution of UDF: <function f at 0x7f>.

Warning: Java versions > Java 11 can only operate in restricted mode where no off-heap operations \
are allowed!
"""
USERS = b"""\
Starting Streaming TransformWithStateInPandas Python worker. And here is mine

Streaming TransformWithStateInPandas Python worker Completed execution of UDF: <f at 0x7f>. my <g>.
Streaming TransformWithStateInPandas Python worker Starting execution of UDF: of mine
Streaming TransformWithStateInPandas Python worker received parameters for UDF. State server \
port/path: I look at them
mineStarting Streaming TransformWithStateInPandas Python worker.

Warning: Java versions > Java 11 can only operate in restricted mode where no off-heap operations \
are allowed! And I told you so
"""
ERRORS = b"""\
Traceback (most recent call last):
ModuleNotFoundError: No module named 'google'

Streaming TransformWithStateInPandas Python worker died
Warning: Java versions before 17 are too old

"""


ORPHAN = b"""\
Traceback (most recent call last):
  File "/v/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 265, in main
  File "/v/pyspark.zip/pyspark/serializers.py", line 604, in read_int
EOFError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/v/pyspark.zip/pyspark/worker_util.py", line 253, in get_sock_file_to_executor
  File "/v/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 299, in main
  File "/v/socket.py", line 724, in write
    return self._sock.send(b)
           ^^^^^^^^^^^^^^^^^^
BrokenPipeError: [Errno 32] Broken pipe

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/v/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 313, in <m>
  File "/v/socket.py", line 724, in write
    return self._sock.send(b)
BrokenPipeError: [Errno 32] Broken pipe
"""
"""Of the process behind a stream's source, whose Java had gone in the middle of an answer."""


@pytest.mark.parametrize("behind", [b"", b"a user's line\n", b"\n", ERRORS, b"no newline"])
def test_a_source_whose_java_has_gone_says_nothing(behind: bytes) -> None:
    said = (ERRORS + ORPHAN + behind).splitlines(keepends=True)
    left = b"".join(telling(said))
    assert left.replace(b"\n", b"") == (ERRORS + behind).replace(b"\n", b"")
    assert left.startswith(ERRORS)


@pytest.mark.parametrize(
    "changed",
    [
        ORPHAN.replace(b"BrokenPipeError: [Errno 32] Broken pipe", b"ValueError: of mine"),
        ORPHAN.replace(b"python_streaming_source_runner.py", b"mine.py"),
        ORPHAN.partition(b"BrokenPipeError")[0],
    ],
)
def test_other_tracebacks_of_a_source_are_told(changed: bytes) -> None:
    assert b"".join(telling(changed.splitlines(keepends=True))) == changed


def test_a_users_traceback_does_not_wait_for_the_next_line() -> None:
    orphans = telling(
        iter([b"Traceback (most recent call last):\n", b'  File "mine.py", line 1\n'])
    )
    assert next(orphans) == b"Traceback (most recent call last):\n"


def test_only_the_known_lines_are_left_out() -> None:
    said = (CHATTER + ERRORS + CHATTER + ERRORS).splitlines(keepends=True)
    assert b"".join(telling(said)) == ERRORS + ERRORS
    assert b"".join(telling(CHATTER.splitlines(keepends=True))) == b""
    cut_off = [b"no newline"]
    assert list(telling(cut_off)) == cut_off


def test_a_users_line_that_begins_or_ends_as_they_do_is_told() -> None:
    said = USERS.splitlines(keepends=True)
    assert b"".join(telling(said)) == USERS


def test_a_function_in_a_function_is_named_by_both() -> None:
    function = b"<function a.<locals>.b at 0x7f>"
    said = CHATTER.replace(b"<function f at 0x7f>", function)
    said = said.replace(
        b"StructType([])", b"StructType([StructField('group', StringType(), True)])"
    )
    assert b"".join(telling(said.splitlines(keepends=True))) == b""


def test_what_outlives_the_start_is_still_listened_to(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = f"cat; echo 'an error' >&2; printf '%s' '{CHATTER.decode()}' >&2; printf last >&2"
    with filtered_stderr() as group:
        process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
    os.write(2, CHATTER)  # of this process
    assert capfd.readouterr().err == CHATTER.decode()
    process.communicate()
    assert group.listener is not None
    # Read once it has ended: `capfd` reads, then empties, and loses what is written in between.
    assert group.listener.wait() == 0
    assert capfd.readouterr().err == "an error\nlast"


def test_what_a_java_says_that_does_not_start_stands_there_when_that_is_told(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(subprocess.CalledProcessError), filtered_stderr():
        subprocess.run(["sh", "-c", "echo no room >&2; exit 1"], check=True)
    assert capfd.readouterr().err == "no room\n"


def test_without_a_stderr_there_is_nothing_to_listen_to() -> None:
    stderr = os.dup(2)
    try:
        os.close(2)
        with filtered_stderr() as group:
            pass
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(2)
        assert group.listener is not None
        assert group.listener.wait() == 0
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)

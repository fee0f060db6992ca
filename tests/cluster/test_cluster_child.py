"""A node's process as its parent has it, without the parent's actors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from actors.cluster import child

pytestmark = pytest.mark.real_io


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


CHILD = """
    import os, signal, sys
    from actors.cluster.child import die_with_parent
    die_with_parent(int(sys.argv[1]))
    print("ready", os.getpid(), flush=True)
    signal.pause()
"""
PARENT = f"""
    import os, subprocess, sys
    code = {textwrap.dedent(CHILD)!r}
    subprocess.run([sys.executable, "-c", code, str(os.getpid())])
"""


def test_a_killed_parent_leaves_no_child() -> None:
    with subprocess.Popen(python(PARENT), stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        word, pid = parent.stdout.readline().split()
        assert word == b"ready"
        assert int(pid) != parent.pid
        parent.kill()
        # The pipe's end is the proof: it ends when the last process that holds it has ended.
        assert parent.stdout.read() == b""


def test_child_of_somebody_else_refuses() -> None:
    code = """
        from actors.cluster.child import die_with_parent
        from actors.errors import ConfigError
        try:
            die_with_parent(1 << 22)
        except ConfigError as error:
            print(error)
    """
    found = subprocess.run(python(code), capture_output=True, text=True, check=True)
    assert found.stdout.startswith("--child-of: expected the parent's process id")


def test_prctl_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "PR_SET_PDEATHSIG", -1)
    with pytest.raises(OSError, match="Invalid argument"):
        child.die_with_parent(os.getppid())


def test_no_child_is_left_when_it_cannot_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def refuse(pid: int) -> int:
        started.append(pid)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many"):
        child.start_child(python("import signal; signal.pause()"))
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "was killed by SIGKILL"),
        (3, "ended with exit code 3"),
        (-200, "was killed by signal 200"),
        (0, "ended with exit code 0, but has not reported that it stopped"),
        (None, "ended without a report"),
    ],
)
def test_ended_how(code: int | None, words: str) -> None:
    assert child.ended_how(code) == words


def test_command_of_a_child() -> None:
    command = child.child_command(("f.toml",), "n1")
    assert command[:3] == (sys.executable, "-m", "actors.cluster")
    assert command[3:] == ("f.toml", "run", "--node", "n1", "--child-of", str(os.getpid()))

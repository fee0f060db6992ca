"""What a run may inherit from whoever starts it, and does all the same. Real processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from cluster_kit import ROOT, children_of, make_cluster, statuses, wait_for

from actors.config import load
from actors.errors import ConfigError
from actors.own_process import DESCRIPTORS_MAX

pytestmark = pytest.mark.real_io

HOSTILE = {
    **os.environ,
    "PYTHONINSPECT": "1",
    "PYTHONIOENCODING": "ascii",
    "PYTHONWARNINGS": "error",
}
FILE_BYTES = 4096
"""Less than a segment, as a soft limit."""


def inherit() -> None:
    """In a child, before it becomes the program: what a careless parent leaves."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    limit(resource.RLIMIT_NOFILE, 32)
    limit(resource.RLIMIT_FSIZE, FILE_BYTES)


def limit(which: int, soft: int) -> None:
    resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def test_a_run_that_inherited_the_worst(tmp_path: Path) -> None:
    """A killed node comes back, and SIGTERM stops all in order."""
    cluster = make_cluster(tmp_path)
    words = ("--processes", "--json")
    with cluster.start(*words, preexec_fn=inherit, stdin=subprocess.DEVNULL, env=HOSTILE) as run:
        assert run.stderr is not None
        wait_for(lambda: all(statuses(cluster).values()))
        nodes = set(children_of(run))
        killed = next(pid for pid in nodes if b"n1" in command_of(pid))
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: len(set(children_of(run)) - {killed}) == len(nodes))
        wait_for(lambda: all(statuses(cluster).values()))
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate()
    assert "n1: was killed by SIGKILL, starting it again" in err
    assert "stopped in order" not in err  # nobody asked a single node to
    assert "SystemExit: 0" in err  # so PYTHONINSPECT, which is for the command itself, shows it


def command_of(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def program(code: str, prepare: object) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-c", code)
    return subprocess.run(
        command,
        cwd=ROOT,
        text=True,
        capture_output=True,
        preexec_fn=prepare,  # type: ignore[arg-type]
    )


def test_what_is_reset() -> None:
    code = """if True:
        import resource, signal
        from actors.own_process import reset_inherited
        reset_inherited()
        print(signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL)
        print(signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set())
        print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
        print(*(resource.getrlimit(which)[0] for which in (
            resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)))
    """

    def prepare() -> None:
        inherit()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    descriptors = min(hard, DESCRIPTORS_MAX) if hard != -1 else DESCRIPTORS_MAX
    sizes = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    found = program(code, prepare)
    assert found.stdout.split() == ["True"] * 3 + [str(descriptors), str(sizes)], found.stderr


@pytest.mark.parametrize("mode", ["classic", "dledger"])
def test_a_hard_limit_below_a_file_of_the_log(tmp_path: Path, mode: str) -> None:
    """One line at the start, instead of a node that ends with its first write behind the limit."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))

    cluster = make_cluster(tmp_path, mode)
    with cluster.start("--json", preexec_fn=prepare) as run:
        _, err = run.communicate()
    key = "segment_bytes" if mode == "classic" else "data_file_bytes"
    assert run.returncode == 2
    assert err == (
        f"triolog: {cluster.file}: key groups.orders.{key}: expected at most {FILE_BYTES}, the"
        " largest file that this process may write (ulimit -f), found 65536\n"
    )
    assert not (tmp_path / "var").exists()


def test_names_in_another_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's data would lie elsewhere in the next locale, or nowhere."""
    cluster = make_cluster(tmp_path)
    file = cluster.write(cluster.text.replace('"var"', '"vär"'))
    assert load(file).data_dir.endswith("/vär")
    monkeypatch.setattr(sys, "getfilesystemencoding", partial(str, "iso8859-1"))
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert caught.value.problems == (
        f"{file}: key data_dir: expected a name in ASCII while the locale's encoding is iso8859-1"
        ' (or set LC_ALL=C.UTF-8), found "vär"',
    )

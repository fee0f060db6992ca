"""Real child processes: restarts, ordered stops, refusals, and no orphans."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
import trio
from cluster_kit import WAIT_S

from actors.cluster import child, processes
from actors.cluster.processes import Watcher
from actors.runtime import open_system

pytestmark = pytest.mark.real_io

ORDERLY = """
    import os, signal, sys
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    print("stopped", flush=True)
    os.write(int(sys.argv[-1]), b"ended 0\\n")
"""
STUBBORN = """
    import os, signal, sys
    count = []
    def on_term(*_):
        count.append(1)
        print("term", len(count), flush=True)
    signal.signal(signal.SIGTERM, on_term)
    print("ready", flush=True)
    while len(count) < 2:
        signal.pause()
    os.write(int(sys.argv[-1]), b"ended 0\\n")
"""
FAILS = """
    import os, sys
    print("triolog: {words}", flush=True)
    os.write(int(sys.argv[-1]), b"ended {code}\\n")
    sys.exit({code})
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


class Notes(list[str]):
    """Collects what the watcher is sent, and lets a test wait for it."""

    _changed = trio.Event()

    def append(self, note: str) -> None:
        super().append(note)
        self._changed.set()
        self._changed = trio.Event()

    async def having(self, word: str, count: int = 1) -> None:
        with trio.fail_after(WAIT_S):
            while sum(word in note for note in self) < count:
                await self._changed.wait()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def watcher(notes: Notes) -> Watcher:
    return Watcher(note=notes.append)


def spec(watcher: Watcher, **codes: str) -> processes.SupervisorSpec:
    return processes.tree(
        list(codes), lambda node: python(codes[node]), watcher, stop_timeout_s=20.0
    )


async def test_children_stop_in_reverse_order(watcher: Watcher, notes: Notes) -> None:
    async with open_system("c", spec(watcher, n1=ORDERLY, n0=ORDERLY)):
        await notes.having("ready", 2)
        pids = dict(watcher.pids)
    assert watcher.pids == {}
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_reverse_order_is_seen_in_time(watcher: Watcher, tmp_path: Path) -> None:
    def code(node: str) -> str:
        return ORDERLY + f"    open({str(tmp_path / 'log')!r}, 'a').write('{node} ')\n"

    note = Notes()
    watcher.note = note.append
    async with open_system("c", spec(watcher, n2=code("n2"), n1=code("n1"), n0=code("n0"))):
        await note.having("ready", 3)
    assert (tmp_path / "log").read_text() == "n0 n1 n2 "


async def test_killed_child_comes_back(watcher: Watcher, notes: Notes) -> None:
    async with open_system("c", spec(watcher, n0=ORDERLY, n1=ORDERLY)) as system:
        await notes.having("ready", 2)
        other = watcher.pids["n1"]
        for time in (1, 2):
            os.kill(watcher.pids["n0"], signal.SIGKILL)
            await notes.having("n0: ready", 1 + time)
            await notes.having("n0: was killed by SIGKILL, starting it again", time)
        assert watcher.pids["n1"] == other
        node = system.tree().find("/c/n0")
        assert node is not None
        assert node.restarts == 2


async def test_exit_code_1_is_a_crash(watcher: Watcher, notes: Notes, tmp_path: Path) -> None:
    flag = tmp_path / "second"
    code = f"""
        import os, signal, sys
        if not os.path.exists({str(flag)!r}):
            open({str(flag)!r}, "w").close()
            print("triolog: the disk is full")
            sys.exit(1)
        print("ready", flush=True)
        signal.pause()
    """
    async with open_system("c", spec(watcher, n0=code)):
        await notes.having("n0: ended with exit code 1, starting it again")
        await notes.having("n0: the disk is full")
        await notes.having("n0: ready")


async def test_an_ordered_stop_of_all_ends_the_system(watcher: Watcher, notes: Notes) -> None:
    async with open_system("c", spec(watcher, n0=ORDERLY, n1=ORDERLY)) as system:
        await notes.having("ready", 2)
        os.kill(watcher.pids["n0"], signal.SIGTERM)
        await notes.having("n0: stopped in order")
        assert "n1" in watcher.pids
        os.kill(watcher.pids["n1"], signal.SIGTERM)
        with trio.fail_after(WAIT_S):
            await system.wait_ended()


async def test_a_refusal_is_not_tried_again(watcher: Watcher, notes: Notes) -> None:
    code = FAILS.format(words="f.toml: key x", code=2)
    async with open_system("c", spec(watcher, n0=code, n1=ORDERLY)):
        with trio.fail_after(WAIT_S):
            await watcher.something_refused.wait()
    assert watcher.refused == ["triolog: f.toml: key x"]
    assert not any("key x" in note for note in notes)  # the run says it, once


async def test_a_refusal_without_words(watcher: Watcher) -> None:
    code = "import os, sys; os.write(int(sys.argv[-1]), b'ended 2\\n')"
    async with open_system("c", spec(watcher, n0=code, n1=ORDERLY)):
        with trio.fail_after(WAIT_S):
            await watcher.something_refused.wait()
    assert watcher.refused == ["n0: refused its configuration"]


async def test_damage_is_not_tried_again(watcher: Watcher, notes: Notes) -> None:
    code = FAILS.format(words="d/0: bad record", code=3)
    one_failed = watcher.one_failed  # which may come before n1 is ready
    async with open_system("c", spec(watcher, n0=code, n1=ORDERLY)) as system:
        await notes.having("n1: ready")
        with trio.fail_after(WAIT_S):
            await one_failed.wait()
        assert watcher.failed == {"n0": "d/0: bad record"}
        node = system.tree().find("/c/n0")
        assert node is not None
        assert node.restarts == 0
    assert not any("bad record" in note for note in notes)


async def test_a_start_without_room_is_tried_again_and_again(
    watcher: Watcher, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FAILURES_MAX", 2)
    code = FAILS.format(words="d/n0: no room", code=4)
    async with open_system("c", spec(watcher, n0=code, n1=ORDERLY)):
        await notes.having("trying again", 4)
    assert watcher.failed == {}
    assert "n0: d/n0: no room" in notes


async def test_a_node_that_fails_again_and_again_is_given_up(
    watcher: Watcher, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FAILURES_MAX", 2)
    one_failed = watcher.one_failed
    async with open_system("c", spec(watcher, n0="import sys; sys.exit(1)", n1=ORDERLY)):
        with trio.fail_after(WAIT_S):
            await one_failed.wait()
    assert watcher.failed == {"n0": "ended with exit code 1"}
    assert sum("starting it again" in note for note in notes) == 1


@pytest.mark.parametrize("code", [0, 2, 3])
async def test_an_exit_code_alone_is_a_crash(watcher: Watcher, notes: Notes, code: int) -> None:
    """Python itself ends with 2 where it cannot open a program, and with 0 after PYTHONINSPECT."""
    once = f"import sys; sys.exit({code})"
    async with open_system("c", spec(watcher, n0=once, n1=ORDERLY)):
        await notes.having(f"n0: ended with exit code {code}")
        await notes.having("n0: started again")
    assert watcher.refused == []


@pytest.mark.parametrize("said", ["ended", "ended 0", "ended x\\n", "bye 0\\n", "ended -1\\n"])
async def test_half_a_word_is_none(watcher: Watcher, notes: Notes, said: str) -> None:
    code = f"import os, sys; os.write(int(sys.argv[-1]), b'{said}')"
    async with open_system("c", spec(watcher, n0=code, n1=ORDERLY)):
        await notes.having("n0: ended with exit code 0, but has not reported that it stopped")
        await notes.having("n0: started again")


async def test_a_child_that_the_kernel_forgets_is_started_again(
    watcher: Watcher, notes: Notes
) -> None:
    """Where SIGCHLD is ignored nobody can wait for a child: Popen takes its end for exit code 0."""
    was = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with open_system("c", spec(watcher, n0=ORDERLY, n1=ORDERLY)):
            await notes.having("ready", 2)
            os.kill(watcher.pids["n0"], signal.SIGKILL)
            await notes.having("n0: ended without a report, starting it again")
            await notes.having("n0: ready", 2)
            os.kill(watcher.pids["n0"], signal.SIGTERM)
            await notes.having("n0: stopped in order")
    finally:
        signal.signal(signal.SIGCHLD, was)
    assert watcher.failed == {}  # n1 said that it stopped


async def test_a_stop_that_fails_is_reported(watcher: Watcher, notes: Notes) -> None:
    dies = ORDERLY.replace(
        '    print("stopped"', '    os.kill(os.getpid(), 9)\n    print("stopped"'
    )
    fails = ORDERLY.replace("ended 0", "ended 1").replace('"stopped"', '"triolog: no room"')
    async with open_system("c", spec(watcher, n0=dies, n1=fails, n2=ORDERLY)):
        await notes.having("ready", 3)
    assert watcher.failed == {
        "n0": "not stopped in order: was killed by SIGKILL",
        "n1": "not stopped in order: no room",
    }


async def test_a_child_that_was_stopped_before_it_began_has_not_failed(watcher: Watcher) -> None:
    unprepared = "import signal; print('x', flush=True); signal.pause()"
    note = Notes()
    watcher.note = note.append
    async with open_system("c", spec(watcher, n0=unprepared)):
        await note.having("n0: x")
    assert watcher.failed == {}


async def test_what_a_child_says_as_it_stops_is_passed_on(watcher: Watcher, notes: Notes) -> None:
    """More than its pipe holds, too: it would wait for its reader for ever."""
    much = ORDERLY.replace('print("stopped"', 'print("line\\n" * 100_000 + "stopped"')
    async with open_system("c", spec(watcher, n0=much)):
        await notes.having("ready")
    assert notes[-1] == "n0: stopped"
    assert notes.count("n0: line") == 100_000
    assert watcher.failed == {}


def test_failures_long_ago_do_not_count(watcher: Watcher) -> None:
    late_s = processes.FAILURES_PERIOD_S + 1
    found = [watcher.fails_too_often("n0", at_s) for at_s in (0, 1, 2, 3, late_s, late_s)]
    assert found == [False] * 5 + [True]
    assert not watcher.fails_too_often("n1", late_s)


async def test_hurry_is_passed_on_as_a_second_signal(watcher: Watcher, notes: Notes) -> None:
    async with open_system("c", spec(watcher, n0=STUBBORN)) as system:
        await notes.having("ready")
        system.request_stop()
        await trio.sleep(0.1)
        assert watcher.pids
        watcher.hurry.set()
        with trio.fail_after(WAIT_S):
            await system.wait_ended()


async def test_child_that_does_not_stop_is_killed(
    watcher: Watcher, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "KILL_EXTRA_S", 0.1)
    stubborn = processes.tree(["n0"], lambda _: python(STUBBORN), watcher, stop_timeout_s=0.1)
    async with open_system("c", stubborn):
        await notes.having("ready")
        pid = watcher.pids["n0"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert watcher.failed == {"n0": "not stopped in order: did not stop in time, was killed"}


def kill(stuck: child.Child) -> None:
    """One that is there still, and that nobody waits for any more."""
    assert stuck._process.poll() is None
    stuck._process.kill()
    stuck._process.wait()


async def test_a_child_that_sigkill_does_not_end_holds_nobody_up(
    watcher: Watcher, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a disk. It ends by itself, lest a parent that waits for it hangs."""
    monkeypatch.setattr(processes, "KILL_EXTRA_S", 0.1)
    monkeypatch.setattr(child, "REAP_S", 0.1)
    to_child = child.Child.signal
    left: list[child.Child] = []

    def all_but_kill(self: child.Child, number: signal.Signals) -> None:
        if number is signal.SIGKILL:
            left.append(self)
        else:
            to_child(self, number)

    monkeypatch.setattr(child.Child, "signal", all_but_kill)
    held = STUBBORN.replace("count = []", f"count = []; signal.alarm({WAIT_S:.0f})")
    stuck = processes.tree(["n0"], lambda _: python(held), watcher, stop_timeout_s=0.1)
    async with open_system("c", stuck):
        await notes.having("ready")
        pid = watcher.pids["n0"]
    assert [each.pid for each in left] == [pid]
    kill(left[0])
    (reported,) = watcher.failed.values()
    assert reported.startswith(
        f"not stopped in order: process {pid} still runs 0.1 s after SIGKILL"
    )
    assert watcher.pids == {}


async def test_output_without_newlines_is_bounded(watcher: Watcher, notes: Notes) -> None:
    code = "import sys; sys.stdout.write('x' * 100_000 + '\\nend'); sys.stdout.flush()"
    async with open_system("c", spec(watcher, n0=code)):
        await notes.having("n0: end")
    assert max(map(len, notes)) <= child.OUTPUT_LINE_BYTES_MAX + 10
    assert sum("xxx" in note for note in notes) >= 1


async def test_missing_program_fails_the_system(watcher: Watcher) -> None:
    missing = processes.tree(["n0"], lambda _: ("/no/such/program",), watcher, 1.0)
    with pytest.RaisesGroup(FileNotFoundError, allow_unwrapped=True, flatten_subgroups=True):
        async with open_system("c", missing):
            pass  # the first start's error is the system's

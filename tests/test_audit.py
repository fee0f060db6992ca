"""`make audit` before it starts anything: what it is sent, and the folder that it takes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import audit
import pytest


def reported(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["audit.py", *words])
    audit.arguments()


def test_a_folder_with_somebody_s_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("mine")
    (tmp_path / "cluster.toml").write_text("mine, too")
    with pytest.raises(SystemExit) as ended:
        reported(monkeypatch, "--folder", str(tmp_path))
    assert ended.value.code == 2
    assert "not those of an earlier run" in capsys.readouterr().err
    assert (tmp_path / "data" / "mine").exists()


def test_only_an_earlier_run_s_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "audit"
    assert audit.cleared(folder)
    for name in ("cluster.toml", "cluster.log", "report.html", "notes.txt"):
        (folder / name).write_text("")
    (folder / "data" / "n0").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (folder / "report.tables").symlink_to(tmp_path / "mine")
    assert audit.cleared(folder)
    assert [each.name for each in folder.iterdir()] == ["notes.txt"]
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize(
    "words", [("--kills", "1"), ("--seconds", "0"), ("--seconds", "nan"), ("--rate", "-1")]
)
def test_a_run_that_says_nothing_is_refused(
    words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        reported(monkeypatch, "--folder", str(tmp_path), *words)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("killed", "verdicts", "expected"),
    [
        (1, ("held",), "2 nodes were killed, and 1 by their logs"),
        (2, (), "nothing was judged by: any audit"),
        (2, ("held", "not_applicable"), "nothing was judged by: audit_1"),
    ],
)
def test_a_judgement_of_another_run_is_no_success(
    killed: int,
    verdicts: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No event log was found, or not those of the killed nodes, or not all of it was judged."""
    said = _report(killed, verdicts)
    monkeypatch.setattr(audit.subprocess, "run", lambda *_a, **_k: said)
    with pytest.raises(audit.NotAsPlanned, match=expected):
        audit.judge(tmp_path, 2)


def test_a_promise_that_broke_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in (0, 1):
        said = _report(2, ("held", "violated"), code)
        monkeypatch.setattr(audit.subprocess, "run", lambda *_a, _said=said, **_k: _said)
        assert audit.judge(tmp_path, 2) == code


def test_a_report_that_never_comes_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_words: object, **_more: object) -> None:
        raise subprocess.TimeoutExpired("report", 1)

    monkeypatch.setattr(audit.subprocess, "run", hang)
    with pytest.raises(audit.NotAsPlanned, match="no report within"):
        audit.judge(tmp_path, 2)


def test_only_the_cluster_itself_can_be_late_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else is waited for in vain is reported as what it is; nothing is left running."""
    waits = "import time; time.sleep(600)"
    start = subprocess.Popen
    monkeypatch.setattr(
        audit.subprocess, "Popen", lambda *_a, **_k: start([sys.executable, "-Sc", waits])
    )
    with (
        pytest.raises(subprocess.TimeoutExpired),
        audit.cluster(tmp_path / "cluster.toml", tmp_path / "cluster.log") as run,
    ):
        raise subprocess.TimeoutExpired("status", 1)
    assert run.returncode == -signal.SIGKILL
    with (
        pytest.raises(audit.NotAsPlanned, match="ended with exit code -15"),
        audit.cluster(tmp_path / "cluster.toml", tmp_path / "cluster.log"),
    ):
        pass


def _report(
    killed: int, verdicts: tuple[str, ...], code: int = 0
) -> subprocess.CompletedProcess[bytes]:
    audits = [
        {
            "name": f"audit_{number}",
            "severity": "error",
            "verdict": verdict,
            "findings": 0,
            "checked": {"rows": 1, "ranges": [], "logs": []},
        }
        for number, verdict in enumerate(verdicts)
    ]
    summary = {"events": 1, "boots": 1, "killed": killed}
    text = json.dumps({"verdicts": {"audits": audits}, "summary": summary})
    return subprocess.CompletedProcess([], code, stdout=text.encode())

"""`make audit` before it starts anything: what it is told, and the folder that it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import audit
import pytest


def told(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["audit.py", *words])
    audit.arguments()


def test_a_folder_with_somebody_s_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("mine")
    (tmp_path / "cluster.toml").write_text("mine, too")
    with pytest.raises(SystemExit) as ended:
        told(monkeypatch, "--folder", str(tmp_path))
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


@pytest.mark.parametrize("words", [("--kills", "1"), ("--seconds", "0"), ("--seconds", "nan")])
def test_a_run_that_says_nothing_is_refused(
    words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        told(monkeypatch, "--folder", str(tmp_path), *words)
    assert ended.value.code == 2


def test_a_judgement_of_another_run_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event log was found, or not those of the killed nodes."""
    for killed, verdict, kills in ((1, "held", 2), (2, "not_applicable", 2)):
        said = _report(killed, verdict)
        monkeypatch.setattr(audit.subprocess, "run", lambda *_a, _said=said, **_k: _said)
        with pytest.raises(audit.NotAsPlanned):
            audit.judge(tmp_path, kills)
    said = _report(2, "held")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_a, **_k: said)
    assert audit.judge(tmp_path, 2) == 0


def _report(killed: int, verdict: str) -> audit.subprocess.CompletedProcess[bytes]:
    one = {
        "name": "one_leader_per_term",
        "severity": "error",
        "verdict": verdict,
        "findings": 0,
        "checked": {"rows": 1, "ranges": [], "logs": []},
    }
    summary = {"events": 1, "boots": 1, "killed": killed}
    text = audit.json.dumps({"verdicts": {"audits": [one]}, "summary": summary})
    return audit.subprocess.CompletedProcess([], 0, stdout=text.encode())

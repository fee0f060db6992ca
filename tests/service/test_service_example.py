"""The embedding example runs as it is printed."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/embed_service.py"


@pytest.mark.real_io
def test_the_example_runs(tmp_path: Path) -> None:
    # The path of a socket in there is longer than a name's longest part, and shorter than 108.
    folder = tmp_path / ("d" * 30)
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(folder)],
        cwd=EXAMPLE.parents[1],
        env={"PYTHONPATH": str(EXAMPLE.parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "998 more, all acknowledged" in ran.stdout
    assert "the slave has shown 1000 orders, the last is b'order 1000: more tea'" in ran.stdout

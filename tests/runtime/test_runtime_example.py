"""examples/actors_alone.py does what it says."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "actors_alone.py"


async def test_a_worker_crashes_and_comes_back(autojump_clock, capsys):
    await runpy.run_path(str(EXAMPLE))["main"]()
    assert capsys.readouterr().out.splitlines() == [
        "/demo [one_for_one, 3 restarts in 30 s]",
        "└─ divider permanent",
        "/demo/divider#1 is ready",
        "6 / 2 = 3.0",
        "6 / 0: ActorDown: /demo/divider#1 ended before it answered",
        "/demo/divider#2 is ready",
        "6 / 4 = 1.5",
        "/demo#1 [one_for_one]",
        "└─ divider#2 [Divider] restarts=1 depth=0 peak=1 received=1",
    ]

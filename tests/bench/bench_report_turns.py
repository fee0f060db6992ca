"""How long `triolog pipeline report` takes until its first page and in all, in turns with another
checkout's; `bench_report` has its parts.

Run: python tests/bench/bench_report_turns.py [--data DIR --against CHECKOUT --rounds 3]

Without DIR the report is of a run that is made first, which takes some four minutes: three nodes,
both groups, SECONDS at RATE records/s for each group, KILLS nodes killed (`tests/audit.py`). It
stays in var/report, and the next measurement takes it again.

Each round runs the command as people do, with tables of its own that begin empty; with CHECKOUT,
another clone of this repository, that one's command too, in turn. Then the verdicts of both must be
the same. Processor time is that of the command and all that it starts, by the system; where others
use the machine, it says more than the clock.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_kit import Figures, arguments, show_versions

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS: Final = 150
RATE: Final = 9000
KILLS: Final = 6
HERE: Final = "this checkout"
OTHER: Final = "the other one"
FIRST_PAGE: Final = "without the verdicts"
"""What the line about the first page says, and no other one."""
COLUMNS: Final = ("first page s", "all s", "processor s")


def make_run(folder: Path) -> None:
    """Have a run's data directory in the folder. Raises: SystemExit: it was not as planned."""
    options = {"seconds": SECONDS, "rate": RATE, "kills": KILLS, "folder": folder}
    command = [sys.executable, str(ROOT / "tests" / "audit.py"), "--run-only"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    if subprocess.run(command).returncode:
        raise SystemExit("the run was not as planned")


def measure(checkout: Path, data: Path, scratch: Path) -> tuple[dict[str, float], dict[str, Any]]:
    """One report; its figures, and its verdicts without the times that they took."""
    page = scratch / "report.html"
    command = [sys.executable, "-m", "actors.pipeline", "report", str(data), "-o", str(page)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}  # the workers' too
    figures: dict[str, float] = {}
    begin = time.perf_counter()
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if FIRST_PAGE in line:
                figures["first page s"] = time.perf_counter() - begin
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    figures["all s"] = time.perf_counter() - begin
    figures["processor s"] = used.ru_utime + used.ru_stime
    if run.returncode not in (0, 1) or "first page s" not in figures:
        raise SystemExit(f"{checkout}: no report, exit code {run.returncode}")
    verdicts = json.loads((scratch / "report.tables" / "audit" / "verdicts.json").read_text())
    del verdicts["made_at_us"]
    for audit in verdicts["audits"]:
        del audit["seconds"]
    return figures, verdicts


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="a data directory")
    parser.add_argument("--against", type=Path, help="another checkout")
    given = parser.parse_args()
    data = given.data or ROOT / "var" / "report" / "data"
    if given.data is None and not data.is_dir():
        make_run(data.parent)
    show_versions()
    checkouts = {HERE: ROOT} | ({OTHER: given.against.resolve()} if given.against else {})
    table = Figures(f"report of {data}", COLUMNS)
    for _ in range(given.rounds):
        said = []
        for name, checkout in checkouts.items():
            scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=given.folder))
            try:
                figures, verdicts = measure(checkout, data.resolve(), scratch)
            finally:
                shutil.rmtree(scratch)
            table.add(name, **figures)
            said.append(verdicts)
        if any(verdicts != said[0] for verdicts in said):
            raise SystemExit("the verdicts differ")
    table.show(ratios=[(HERE, OTHER, column, "") for column in COLUMNS if given.against])


if __name__ == "__main__":
    main()

"""Bronze under SIGKILL: files arrive, the job is killed twice, and every event is there once.

`bronze_kills.py` does it six times, and to `watch` too.
"""

from __future__ import annotations

import random
from pathlib import Path

import bronze_kills
import pytest


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_killed_twice_and_every_event_is_there_once(tmp_path: Path) -> None:
    outcome = bronze_kills.run(tmp_path, "bronze", 2, random.Random(11))
    for line in bronze_kills.lines(outcome):
        print(line)
    assert all(life.begun for life in outcome.lives)
    assert outcome.expected.total() > 10 * bronze_kills.EVENTS_PER_FILE
    assert outcome.found == outcome.expected

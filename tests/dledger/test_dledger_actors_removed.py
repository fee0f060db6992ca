"""Files of a running member that somebody removes: it ends with one line that names what is
missing, and what is to be done; the others go on.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from group_kit import Group, opened

from actors.cluster.explain import explain
from actors.errors import TriologError
from actors.runtime import ActorError
from actors.storage.layout import LedgerLayout
from actors.storage.log.syncer import WHAT_TO_DO, lost_text

BODIES = [b"%04d" % number * 500 for number in range(80)]
"""Three data files."""
GAVE_UP = "RestartIntensityExceeded"
FOLDERS = ("data", "index", "")
FIRST, LAST = f"{0:020d}", f"{2 * (64 << 10):020d}"


async def written(group: Group) -> tuple[str, LedgerLayout]:
    leader = await group.leader()
    for start in range(0, len(BODIES), 10):
        done = await group.append(leader, *BODIES[start : start + 10])
    await group.until_shown(done.last_index)
    return leader, LedgerLayout(f"/data/{leader}/groups/ledger")


async def lines_of_end(group: Group, name: str) -> tuple[str, ...]:
    """What the command says of the member's end, which comes with what is appended."""
    with suppress(ActorError, TriologError):
        for _ in range(100):
            await group.append(name, b"more")
            await trio.sleep(0.1)
    with trio.fail_after(30.0):
        await group.world.node(name).wait_ended()
    failure = group.world.node(name).take_failure()
    del group.systems[name]
    assert failure is not None
    # The kit's own supervisor tells that it gave up; a node's does not.
    return tuple(line for line in explain(failure).lines if GAVE_UP not in line)


FILES = (f"data/{LAST}", f"index/{FIRST}", f"sums/{FIRST}", "synced")


@pytest.mark.parametrize("path", [*FILES, *FOLDERS])
async def test_it_is_one_line(autojump_clock: object, path: str) -> None:
    async with opened() as group:
        leader, layout = await written(group)
        disk, place = group.world.node(leader).disk, f"{layout.root}/{path}".rstrip("/")
        kind = "folder" if path in FOLDERS else "file"
        (disk.rmtree if path in FOLDERS else disk.unlink)(place)
        lines = await lines_of_end(group, leader)
        assert lines == (f"triolog: {place}: the {kind} is missing: {WHAT_TO_DO}",)
        second = await group.leader()
        done = await group.append(second, b"after")
        await group.until_shown(done.last_index)


def test_the_highest_folder_that_is_gone_is_named() -> None:
    class Disk:
        def exists(self, path: str) -> bool:
            return path in ("/data", "/data/n0")

    text = lost_text(Disk(), "/data/n0/groups/ledger/checkpoint.tmp")  # type: ignore[arg-type]
    assert text == f"/data/n0/groups: the folder is missing: {WHAT_TO_DO}"
    text = lost_text(Disk(), "/data/n0/file")  # type: ignore[arg-type]
    assert text == f"/data/n0/file: the file is missing: {WHAT_TO_DO}"

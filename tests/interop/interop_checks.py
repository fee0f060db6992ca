"""What both directions have in common: what is sent, and when two stores are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interop_logs import (
    LogFiles,
    common_difference,
    first_difference,
    index_difference,
    queue_difference,
)
from interop_processes import PEER_S, PeerFailed, wait_for


def sizes(count: int, most: int) -> list[int]:
    """Body sizes from 1 to `most` that leave all kinds of remainders at the ends of files."""
    return [1 + (i * 7919) % most for i in range(count)]


def wait_for_equal_stores(left: Path, right: Path) -> None:
    """Until two store folders hold the same log and the same consume queues, byte by byte.

    Either may still grow: a 5.3.3 broker writes delayed messages and the ends of transactions some
    seconds later. What both hold has to be equal at any time.
    """
    one, other = left / "commitlog", right / "commitlog"
    assert common_difference(one, other) is None
    _wait_for_none(lambda: first_difference(one, other))
    log = LogFiles.read(one)
    wait_for_equal_queues(left, right, log.min_bytes, log.end_bytes)


def wait_for_equal_queues(left: Path, right: Path, start_bytes: int, end_bytes: int) -> None:
    """Until both have built the same consume queues, which they do behind their logs."""
    _wait_for_none(lambda: queue_difference(left, right, start_bytes, end_bytes))


def wait_for_equal_index(left: Path, right: Path) -> None:
    """Until both have built the same index.

    Only while no broker has been killed: after that a Java broker drops its newest index file and
    fills a new one from wherever its recovery begins.
    """
    _wait_for_none(lambda: index_difference(left, right))


def _wait_for_none(difference: Callable[[], str | None]) -> None:
    try:
        wait_for(lambda: difference() is None, "equal files", timeout_s=PEER_S)
    except PeerFailed as error:
        raise PeerFailed(f"{error}: {difference()}") from None

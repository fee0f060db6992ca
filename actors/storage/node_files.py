"""What lies in a node's directory, and of what kind it has to be."""

from __future__ import annotations

from collections.abc import Iterable

from actors.env.protocols import Disk
from actors.storage import event_files
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import wrong_kinds
from actors.storage.replacing import spare_path


def identity_path(directory: str) -> str:
    """Where a node's identity is kept."""
    return f"{directory}/identity.json"


def events_path(directory: str) -> str:
    """Where a node's events are kept."""
    return f"{directory}/events"


def kind_problems(
    disk: Disk, path: str, groups: Iterable[str], *, sockets: Iterable[str] = ()
) -> tuple[str, ...]:
    """What of a node's directory is not of the kind that a start expects, a line each.

    Args: sockets: files that it listens on. Raises: OSError.
    """
    layouts = [StoreLayout(f"{path}/groups/{group}") for group in groups]
    events = (events_path(path), f"{events_path(path)}/{event_files.FORMAT}")
    return wrong_kinds(
        disk,
        folders=(path, f"{path}/groups", *events, *(f for each in layouts for f in each.folders)),
        files=(
            identity_path(path),
            spare_path(identity_path(path)),
            f"{path}/lock",
            *(file for each in layouts for file in each.files),
        ),
        sockets=sockets,
    )

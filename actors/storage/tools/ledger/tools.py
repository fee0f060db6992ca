"""The tools for stores of `mode = "dledger"`."""

from __future__ import annotations

from typing import Final

from actors.env.protocols import Disk
from actors.storage.layout import LedgerLayout
from actors.storage.node.identity import Identity
from actors.storage.tools.kind import StoreTools
from actors.storage.tools.ledger.backup import (
    BackedUpLedger,
    committed_index,
    copy_ledger,
    running_ledger_limit,
    stopped_ledger_limit,
)
from actors.storage.tools.ledger.check import check_ledger
from actors.storage.tools.ledger.dump import dump_ledger
from actors.storage.tools.stores import GroupLedger, file_size, number_in, settings_at


def _find(disk: Disk, root: str, identity: Identity | None) -> GroupLedger:
    name, layout, settings = (
        root.rpartition("/")[2],
        LedgerLayout(root),
        settings_at(root, identity),
    )
    shape = None if identity is None else identity.ledgers.get(name)
    data_bytes, index_bytes = (
        file_size(disk, folder, number_in(settings, key))
        for folder, key in (
            (layout.commit_log, "data_file_bytes"),
            (layout.index, "index_file_bytes"),
        )
    )
    return GroupLedger(
        name=name,
        layout=layout,
        segment_bytes=data_bytes,
        index_file_bytes=index_bytes,
        settings=settings,
        had_vote=identity is not None and name in identity.votes,
        members=() if shape is None else shape.members,
    )


TOOLS: Final = StoreTools(
    find=_find,
    check=check_ledger,
    dump=dump_ledger,
    pending="a dledger group has no consume queues",
    stays_up_to=committed_index,
    stopped_limit=stopped_ledger_limit,
    running_limit=running_ledger_limit,
    copy=copy_ledger,
    parse_copy=BackedUpLedger.parse,
    truncate="only its leader may have a dledger group's member cut its log",
    seed=(
        "a dledger group's member begins empty and copies all from its leader; on a copy it would"
        " have forgotten votes, and what it acknowledged"
    ),
)

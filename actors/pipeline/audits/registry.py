"""All audits, in the order in which they are judged. A new one is a line here."""

from __future__ import annotations

from typing import Final

from actors.pipeline.audits import commits, copies, kept, leaders, logs
from actors.pipeline.audits.audit import Audit
from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE, WRITTEN_READABLE
from actors.pipeline.audits.data_replicas import REPLICAS_EQUAL

AUDITS: Final[tuple[Audit, ...]] = (
    logs.LOGS_WHOLE,
    leaders.ONE_LEADER,
    leaders.TERMS_RISE,
    commits.COMMITTED_RISES,
    commits.COMMITTED_ON_QUORUM,
    commits.COMMITTED_STAYS,
    leaders.ONE_MASTER,
    copies.ENOUGH_COPIES,
    copies.AS_REPORTED,
    kept.NOTHING_LOST,
    kept.NOTHING_CUT,
    REPLICAS_EQUAL,
    ACKNOWLEDGED_READABLE,
    WRITTEN_READABLE,
    logs.NODES_THERE,
    logs.READ_IN_TIME,
    logs.NOTHING_DROPPED,
    logs.LINES_READ,
    logs.KINDS_KNOWN,
    logs.CLOCKS_RISE,
)

"""All audits, in the order in which they are judged. A new one is a line here."""

from __future__ import annotations

from typing import Final

from actors.pipeline.audits import leaders
from actors.pipeline.audits.audit import Audit

AUDITS: Final[tuple[Audit, ...]] = (
    leaders.ONE_LEADER,
    leaders.TERMS_RISE,
)

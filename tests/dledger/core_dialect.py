"""What a member of `core_world` is that runs another program: DLedger 0.4.0 beside dialect L.

It answers as that does (`tests/interop/test_interop_dledger_dialects.py` sees it), takes no entry
of what it is sent, and votes: its log stays empty. It never campaigns, for it would ask the others
for what they do not know, and hold up a group that is to go on without it.
"""

from __future__ import annotations

from typing import Final

from actors.dledger.core.push_effects import Push, PushAnswer
from wire.dledger.codes import PushType, ResponseCode

SHARE: Final = 0.15
"""Of the runs with a minority of such members."""
CODES: Final = {
    PushType.APPEND: ResponseCode.UNEXPECTED_ARGUMENT,
    PushType.COMMIT: ResponseCode.SUCCESS,
    PushType.COMPARE: ResponseCode.SUCCESS,
    PushType.TRUNCATE: ResponseCode.INCONSISTENT_STATE,
}
"""COMPARE without `preLogIndex` asks whether it has what is before the first entry: it has."""


def answer(push: Push, term: int) -> PushAnswer:
    """To a push of dialect L."""
    return PushAnswer(code=CODES[push.type], term=term, index=-1, count=0, begin=0, end=0)

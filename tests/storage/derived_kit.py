"""Heads of records for consume queues and index files on a simulated disk."""

from store_kit import ROOT

from actors.storage.layout import StoreLayout
from wire.commitlog import RecordHead

LAYOUT = StoreLayout(ROOT)


def head(number: int, offset: int, *, keys: str = "", topic: str = "t", ts: int = 5) -> RecordHead:
    return RecordHead(offset, 10, topic, 0, number, 0, ts, 7, keys, "")

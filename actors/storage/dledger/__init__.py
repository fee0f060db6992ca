"""The DLedger store: entries, index, term and vote, checkpoint, on disk or in memory.

Names for other rooms: `LedgerStore` and the values and errors beside it (`ledger`), `open_ledger`,
`MemoryLedger`, `LedgerSettings`, `LedgerLayout`.
"""

from __future__ import annotations

"""The DLedger store: entries, index, term and vote, checkpoint, on disk or in memory.

| Module                         | For other rooms                               |
|--------------------------------|-----------------------------------------------|
| `ledger`                       | `LedgerStore`, its values, and what it raises |
| `file_ledger`, `memory_ledger` | `open_ledger`; `MemoryLedger`                 |
| `member_opening`               | `open_member`: a log, and its member's vote   |
| `settings`                     | the settings of a store                       |
| `reader`                       | `EntryReader`: reading beside the writer      |
| `store`                        | the actor that owns a ledger, its messages    |
"""

from __future__ import annotations

"""Raft-style replication as in DLedger 0.3.1.2. The decisions are in `core`, pure."""

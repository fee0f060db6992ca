"""Raft-style replication as in DLedger 0.3.1.2.

The decisions are in `core`, pure. The actors around them stand in rooms after what happens there:
`election` (roles), `replication` (appends and pushes), `machine` (state machines, snapshots),
`reading`, and `rpc` (connections). What all of them share is here: sessions, and what a member
publishes.
"""

"""Raft-style replication as in DLedger 0.3.1.2.

The decisions are in `core`, which is pure. The actors that carry them out are in `election`
(roles), `replication` (appends and pushes), `machine` (state machines, snapshots), `reading`, and
`rpc` (connections). What all of them share is here: the messages about sessions, and what a member
publishes.
"""

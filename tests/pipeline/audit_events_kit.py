"""Events by hand that audits judge, with what does not matter to them filled in."""

from __future__ import annotations

from actors.events import dledger, ha, node, roles, store

MEMBERS = ("n0", "n1", "n2")
VERIFIED = roles.SlaveVerified(session=1, master="n0", number=0, end_bytes=0)
STOPPED = node.NodeStopped(reason="ordered")


def promise(
    mode: str = "classic",
    durability: str = "synced",
    store: str = "file",
    java: str = "",
    members: tuple[str, ...] = MEMBERS,
    copies: int = 2,
    upstream: bool = False,
) -> node.GroupConfigured:
    return node.GroupConfigured(
        mode=mode,
        members=members,
        java_members=(java,) if java else (),
        sure_copies=copies,
        durability=durability,
        store=store,
        upstream=upstream,
    )


def opening(number: int, start: int, forced: bool = False) -> roles.GroupOpened:
    return roles.GroupOpened(number=number, token=1, start_bytes=start, heard=(), forced=forced)


def heard(number: int, master: str = "n0") -> roles.PromotionRecorded:
    return roles.PromotionRecorded(number=number, master=master, before="n9")


def acked(slave: str, offset: int, connection: int = 1) -> ha.SlaveAcked:
    return ha.SlaveAcked(slave=slave, connection=connection, offset_bytes=offset)


def answered(end: int) -> ha.AppendsAcknowledged:
    return ha.AppendsAcknowledged(first_bytes=0, next_bytes=end, appends=1, records=1)


def recovered(end: int) -> store.RecoveryFinished:
    return store.RecoveryFinished(
        was_clean=False,
        scanned_from_bytes=0,
        end_bytes=end,
        record_count=0,
        kept_bytes=0,
        reason="",
    )


def removed(index: int, end: int, following: int) -> dledger.LedgerTruncated:
    return dledger.LedgerTruncated(session=1, index=index, end=end, next=following)


def follows(term: int, leader: str = "") -> dledger.RoleChanged:
    return dledger.RoleChanged(session=term, term=term, role="FOLLOWER", leader=leader)

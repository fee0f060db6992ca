"""What no single key of a group with a commit log can show, whatever its mode."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from itertools import pairwise

from actors.config.commit_log_group import CommitLogGroup
from actors.config.problems import Problem, describe


def commit_log_problems(group: CommitLogGroup) -> Iterator[Problem]:
    """Yield every problem of the keys that all such groups have."""
    yield from _limits(group)
    yield from _broker(group)


def _limits(group: CommitLogGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    message, segment = group.max_message_bytes, group.segment_bytes
    if message >= segment:
        yield Problem(
            (*base, "max_message_bytes"),
            f"less than segment_bytes, {segment}",
            str(message),
            ((*base, "segment_bytes"),),
        )
    if message > group.append_pending_bytes:
        yield Problem(
            (*base, "append_pending_bytes"),
            f"at least max_message_bytes, {message}",
            str(group.append_pending_bytes),
            ((*base, "max_message_bytes"),),
        )
    heartbeat, silence = group.ha_send_heartbeat_interval_s, group.ha_housekeeping_interval_s
    if heartbeat >= silence:
        yield Problem(
            (*base, "ha_send_heartbeat_interval_s"),
            f"less than ha_housekeeping_interval_s, {silence:g}",
            f"{heartbeat:g}",
            ((*base, "ha_housekeeping_interval_s"),),
        )
    ratios = ("disk_max_used_ratio", "disk_clean_forcibly_ratio", "disk_full_ratio")
    for low, high in pairwise(ratios):
        if getattr(group, low) > getattr(group, high):
            yield Problem(
                (*base, low),
                f"at most {high}, {getattr(group, high):g}",
                f"{getattr(group, low):g}",
                ((*base, high),),
            )


def _broker(group: CommitLogGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    if group.port in group.broker_ports:
        yield Problem(
            (*base, "broker_port"),
            f"neither {group.port}, the group's port, nor {group.port + 2}",
            str(group.broker_port),
            ((*base, "port"),),
        )
    if group.broker_peers and group.broker_port is None:
        depends = ((*base, "broker_port"),)
        yield Problem(
            (*base, "broker_peers"),
            "nothing without broker_port",
            describe(list(group.broker_peers)),
            depends,
        )
    for i, address in enumerate(group.broker_peers):
        try:
            ip_address(address)
        except ValueError:
            yield Problem((*base, "broker_peers", i), "an IP address", describe(address))

"""What the acknowledgement policies take and refuse, one line each."""

from __future__ import annotations

import pytest
from refusals_kit import BASE, group, lines

FIVE = 'ack_policy = "5.x"\n'

AUTO = FIVE + "enable_slave_acting_master = true\nenable_auto_in_sync_replicas = true\n"


@pytest.mark.parametrize(
    ("addition", "key", "expected", "found"),
    [
        ('ack_policy = "4"', "ack_policy", None, '"4"'),
        (
            'copies = 3\nack_policy = "4.x"',
            "copies",
            'nothing unless ack_policy = "copies"',
            "3",
        ),
        ("in_sync_replicas = 2", "in_sync_replicas", 'nothing unless ack_policy = "5.x"', "2"),
        (
            FIVE + "ha_slave_fallbehind_max_bytes = 9",
            "ha_slave_fallbehind_max_bytes",
            'nothing unless ack_policy = "4.x"',
            "9",
        ),
        (
            "ha_slave_fallbehind_max_bytes = 0",
            "ha_slave_fallbehind_max_bytes",
            "an integer from 1 to 4611686018427387904",
            "0",
        ),
        (
            FIVE + "in_sync_replicas = 4",
            "in_sync_replicas",
            "at most 3, the number of the group's nodes",
            "4",
        ),
        (
            FIVE + "enable_auto_in_sync_replicas = true",
            "enable_auto_in_sync_replicas",
            "false unless enable_slave_acting_master",
            "true",
        ),
        (
            FIVE + "in_sync_replicas = 2\nmin_in_sync_replicas = 2",
            "min_in_sync_replicas",
            "1 unless enable_auto_in_sync_replicas or all_ack_in_sync_state_set",
            "2",
        ),
        (
            AUTO + "in_sync_replicas = 2\nmin_in_sync_replicas = 3",
            "min_in_sync_replicas",
            "at most in_sync_replicas, 2",
            "3",
        ),
        (
            FIVE + "in_sync_replicas = 2\nall_ack_in_sync_state_set = true",
            "all_ack_in_sync_state_set",
            "false with in_sync_replicas or enable_slave_acting_master",
            "true",
        ),
    ],
)
def test_a_key_that_its_policy_does_not_take(
    addition: str, key: str, expected: str | None, found: str
) -> None:
    [line] = group(addition)
    assert line.startswith(f"f.toml: key groups.orders.{key}: expected ")
    assert line.endswith(f", found {found}")
    assert expected is None or f"expected {expected}," in line


def test_the_policy_of_4_x_needs_a_slave() -> None:
    text = BASE.replace('slaves = ["n1", "n2"]', 'ack_policy = "4.x"')
    assert lines(text) == [
        'f.toml: key groups.orders.ack_policy: expected a slave that counts, found "4.x"'
    ]

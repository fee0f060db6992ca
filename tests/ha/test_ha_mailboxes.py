"""Which messages may never wait: those that flow against the data (style section 3)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ha import connection_state, group_transfer
from actors.ha.connection_state import ConnectionState
from actors.ha.group_transfer import GroupTransfer
from actors.ha.ha_client import PENDING_BYTES, HAClient
from actors.ha.read_socket import ReadSocket
from actors.ha.write_socket import WriteSocket
from actors.runtime import Actor
from actors.storage.commitlog import store_messages


@pytest.mark.parametrize(
    ("actor", "messages"),
    [
        (HAClient, (store_messages.LogGrew, store_messages.RawRefused)),
        (ReadSocket, (store_messages.LogGrew,)),
        (WriteSocket, (store_messages.LogGrew,)),
        (
            GroupTransfer,
            (
                store_messages.LogGrew,
                group_transfer.SlaveJoined,
                group_transfer.SlaveAcked,
                group_transfer.SlaveGone,
            ),
        ),
        (
            ConnectionState,
            (
                store_messages.LogGrew,
                connection_state.ReportAccepted,
                connection_state.Sent,
                connection_state.Ended,
                connection_state.ClientChanged,
                connection_state.Refused,
            ),
        ),
    ],
)
def test_what_flows_back_never_waits(
    actor: type[Actor[Any]], messages: tuple[type[Any], ...]
) -> None:
    assert set(messages) <= set(actor.mailbox.conflate)


def test_received_data_is_bounded_in_bytes() -> None:
    assert HAClient.mailbox.capacity_bytes == PENDING_BYTES
    assert HAClient.mailbox.size_of is not None
    assert HAClient.mailbox.size_of(store_messages.RawRefused(session=1, reason="")) == 0

"""The files in which a replica keeps its id."""

from __future__ import annotations

import golden_autoswitch as golden
import pytest

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.broker_identity import BrokerIdentity, decode_identity, encode_identity

GIVEN = BrokerIdentity(cluster="C", broker="set1", broker_id=2)
APPLIED = BrokerIdentity(cluster="C", broker="set1", broker_id=2, check_code="127.0.0.1:1;7")


@pytest.mark.parametrize(
    ("identity", "data"), [(GIVEN, b"C#set1#2"), (APPLIED, b"C#set1#2#127.0.0.1:1;7")]
)
def test_identities(identity: BrokerIdentity, data: bytes) -> None:
    assert encode_identity(identity) == data
    assert decode_identity(data) == identity


@pytest.mark.parametrize(
    "name", ["broker-a/brokerIdentity", "broker-b/brokerIdentity", "broker-c/brokerIdentity-temp"]
)
def test_files_of_java_are_read_and_written_alike(name: str) -> None:
    data = golden.file(name)
    found = decode_identity(data)
    assert encode_identity(found) == data
    assert (found.check_code is None) is not name.endswith("-temp")


@pytest.mark.parametrize(
    "data",
    [b"", b"C#set1", b"C#set1#", b"C##2", b"C#set1#0", b"C#set1#x", b"C#set1#2#a#b", b"\xff#a#1",
     b"C#set1#99999999999999999999"],
)  # fmt: skip
def test_others_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="broker's identity"):
        decode_identity(data)


@pytest.mark.parametrize("name", ["", "a#b", "a\nb"])
def test_a_name_that_cannot_be_read_back_is_refused(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="cannot stand in a file"):
        encode_identity(BrokerIdentity(cluster="C", broker=name, broker_id=1))


@pytest.mark.parametrize("number", [0, -1, 2**63])
def test_an_id_is_positive(number: int) -> None:
    with pytest.raises(LocalProtocolError, match="no id of a replica"):
        encode_identity(BrokerIdentity(cluster="C", broker="b", broker_id=number))

"""Bodies that no Java node writes: read as Java's fastjson reads them, or refused with a reason."""

from typing import Any

import golden_dledger as golden
import msgspec
import pytest
from msgspec import Struct

from wire.dledger import rpc
from wire.errors import RemoteProtocolError
from wire.remoting.header import Header
from wire.remoting.tolerant_json import TolerantDecoder

CLASSES: dict[str, type[Struct]] = {
    name: getattr(rpc, name) for name in rpc.__all__ if name.startswith(tuple("AGHILMPV"))
} | {"RemotingCommand": Header}

NULL_KEEPS_DEFAULT = "Java keeps the default for null, an empty or a null text; here it is refused"
NOT_TEXT = "Java makes text of a number; here it is refused"
OTHER_BYTES = "Java decodes other bytes from this Base64; here it is refused"
EMPTY_ENTRY = "Java makes an entry of zeros; here an entry says what it is"
ESCAPES = "Java escapes more than JSON needs"
TOTAL = "Java counts no bytes of what it read; totalSize is always the entries' here"
NULL_ENUM = "Java leaves an enum out that it read as null; here it is written as null"

DIFFERENCES = {
    '{"type":"1"}': NULL_ENUM,
    '{"type":"NOPE"}': NULL_ENUM,
    '{"type":null}': NULL_ENUM,
    '{"voteResult":"REJECT_ALREADY__HAS_LEADER"}': NULL_ENUM,
    '{"voteResult":"1"}': NULL_ENUM,
    '{"voteResult":""}': NULL_ENUM,
    '{"term":null,"type":"COMMIT"}': NULL_KEEPS_DEFAULT,
    '{"term":""}': NULL_KEEPS_DEFAULT,
    '{"term":"null"}': NULL_KEEPS_DEFAULT,
    '{"entry":null,"batchEntry":null}': NULL_KEEPS_DEFAULT,
    '{"term":1.7}': "Java cuts a fraction; here it is refused",
    '{"term":"1.0"}': "Java refuses a float in quotes; here it is read",
    '{"term":"05"}': "Java reads leading zeros in quotes; here they are refused",
    '{"group":5}': NOT_TEXT,
    '{"code":51004,"opaque":7,"extFields":{"b":"1","a":2,"c":null},"language":"KLINGON","remark":null}': NULL_ENUM,  # noqa: E501
    '{"entry":{"body":null,"index":1}}': EMPTY_ENTRY,
    '{"entry":{}}': EMPTY_ENTRY,
    '{"entry":[]}': EMPTY_ENTRY,
    '{"batchEntry":{}}': EMPTY_ENTRY,
    '{"entry":{"body":"aGk"}}': OTHER_BYTES,
    '{"body":"a-_="}': OTHER_BYTES,
    '{"body":"aG k="}': OTHER_BYTES,
    '{"body":[1,2,3]}': OTHER_BYTES,
    '{"peers":{"n2":"a:1","n1":"b","n0":"c"}}': "Java has an order of its own; here it stays",
    '{"remoteId":"<&>/\\u2028\\u00fc\\u0001\\t\\u007f\\ud83d\\ude00\'"}': ESCAPES,
    '{"opaque":9}': "without a language Java takes itself for the sender",
    '{"opaque":9,"serializeTypeCurrentRPC":"ROCKETMQ"}': "the same",
    '{"code":51004,"opaque":"7","Flag":1}': "the same",
    '{"batchEntry":[{"BODY":"aGk=","Index":"3","MAGIC":1,"pos":"0","size":"50","tERM":1}]}': TOTAL,
}


def outcome(name: str, body: str) -> str | None:
    """What is written for what is read from `body`, None if it is refused."""
    try:
        found, _ = TolerantDecoder(CLASSES[name]).decode(body.encode())
    except RemoteProtocolError as error:
        return None if "\n" not in str(error) else "more than one line"
    return msgspec.json.encode(found).decode()


@pytest.mark.checklist(4, of="dledger")
@pytest.mark.parametrize("row", golden.careless(), ids=lambda row: row["read"][:60] or "empty")
def test_careless_bodies_are_read_as_java_reads_them(row: dict[str, Any]) -> None:
    found = outcome(row["class"], row["read"])
    if row["read"] in DIFFERENCES:
        assert found != row["write"], "no difference any more"
    else:
        assert found == row["write"]


def test_every_difference_is_one_of_the_samples() -> None:
    assert set(DIFFERENCES) <= {row["read"] for row in golden.careless()}

"""How far a dispatcher knows its peer to be, and what that does not take."""

from __future__ import annotations

import pytest
from dispatch_kit import Kit

from actors.dledger.core.patience import REFUSALS_REPORTED, TAKES_NO_MORE
from actors.dledger.core.push_effects import DispatcherState
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.events.dledger import DispatcherChanged
from wire.dledger.codes import PushType, ResponseCode

P, C = PushType, ResponseCode


def refuse(kit: Kit, index: int) -> None:
    kit.answer(kit.one(P.APPEND, index), C.INCONSISTENT_STATE, end=index - 1)


def compare(kit: Kit, end: int) -> None:
    """The peer's log ends there."""
    first = kit.take(P.COMPARE)[0]
    kit.answer(first, C.INCONSISTENT_STATE, end=end)
    kit.answer(kit.one(P.COMPARE, end))


def refused_kit() -> Kit:
    """n1 takes nothing from entry 10 on."""
    kit = Kit()
    kit.append_state()
    kit.grow()
    for number in range(REFUSALS_REPORTED):
        assert kit.dispatch.refusal == "", "a new session of the peer's, perhaps"
        refuse(kit, 10)
        if number > 0:
            kit.tick()
        if number < REFUSALS_REPORTED - 1:
            compare(kit, 9)
    return kit


def test_what_a_peer_takes_never_is_a_refusal_until_it_takes_it() -> None:
    kit = refused_kit()
    assert kit.dispatch.refusal == TAKES_NO_MORE
    compare(kit, 9)
    assert kit.dispatch.refusal == TAKES_NO_MORE, "it is asked anew, at the same place"
    kit.answer(kit.one(P.APPEND, 10))
    assert kit.dispatch.refusal == ""


def test_what_a_peer_says_itself_is_believed_at_once_and_as_long_as_it_says_so() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow()
    kit.answer(kit.one(P.APPEND, 10), C.INCONSISTENT_STATE, end=9, refusal="no room: it is full")
    assert kit.dispatch.refusal == "takes no entries: no room: it is full"
    compare(kit, 9)
    refuse(kit, 10)
    assert kit.dispatch.refusal == "takes no entries: no room: it is full"
    kit.tick()
    compare(kit, 9)
    refuse(kit, 10)
    assert kit.dispatch.refusal == TAKES_NO_MORE
    kit.tick()
    compare(kit, 9)
    kit.answer(kit.one(P.APPEND, 10))
    assert kit.dispatch.refusal == ""


def test_a_refusal_is_logged_again_only_if_more_than_its_numbers_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """How full a disk is changes all the time."""
    log, full = RefusalLog("ledger"), "n1 takes no entries: the disk is {} full, {} free"
    for words in ("93%", "916 KiB"), ("99.5%", "12 bytes"), ("100%", "0 bytes"):
        log.say("n1", full.format(*words))
    log.say("n2", full.format("93%", "1 MiB"))
    assert [each.message for each in caplog.records] == [
        f"ledger: {full.format('93%', '916 KiB')}",
        f"ledger: {full.format('93%', '1 MiB')}",
    ]
    log.say("n1", "")
    log.say("n1", full.format("93%", "916 KiB"))
    assert len(caplog.records) == 3, "it was over in between"


def test_a_peer_that_has_it_all_the_same_refuses_nothing_any_more() -> None:
    """It was given a copy."""
    kit = refused_kit()
    kit.answer(kit.one(P.COMPARE, 10))
    assert (kit.dispatch.refusal, kit.dispatch.lag) == ("", 0)


def test_a_new_session_knows_of_no_refusal() -> None:
    kit = refused_kit()
    kit.dispatch.lead(kit.now_s, term=6, begin=0, end=10, committed=-1)
    assert (kit.dispatch.refusal, kit.dispatch.lag) == ("", None)


def test_refusals_at_different_places_are_none() -> None:
    kit = Kit()
    kit.append_state()
    for index in range(10, 20):
        kit.grow()
        refuse(kit, index)
        compare(kit, index - 1)
        kit.answer(kit.one(P.APPEND, index))
        assert kit.dispatch.refusal == ""


def test_the_lag_is_what_the_peer_is_not_known_to_hold() -> None:
    kit = Kit()
    assert kit.dispatch.lag is None, "nothing is known yet"
    kit.append_state()
    assert kit.dispatch.lag == 0
    kit.grow(3)
    pushes = kit.take(P.APPEND, P.APPEND, P.APPEND)
    assert kit.dispatch.lag == 3
    kit.answer(pushes[1])
    assert kit.dispatch.lag == 1
    kit.answer(pushes[2], count=97)
    assert kit.dispatch.lag == 1, "what was never sent cannot be acknowledged"


def test_an_empty_peer_lacks_all() -> None:
    kit = Kit()
    kit.answer(kit.one(P.COMPARE, 9), C.INCONSISTENT_STATE, begin=-1, end=-1)
    kit.answer(kit.one(P.TRUNCATE, 0))
    kit.take(*[P.APPEND] * 9)
    assert kit.dispatch.lag == 9


@pytest.mark.parametrize("code", [C.UNKNOWN_GROUP, C.UNKNOWN_MEMBER, C.NOT_FOLLOWER, C.DISK_ERROR])
def test_what_was_answered_is_said(code: ResponseCode) -> None:
    kit = Kit()
    kit.answer(kit.one(P.COMPARE, 9), code)
    assert [said(kit), kit.state] == [f"answered {code.name}", DispatcherState.COMPARE]
    kit.tick()
    kit.answer(kit.one(P.COMPARE, 9), C.INCONSISTENT_STATE, end=20)
    if kit.sent and kit.sent[0].type is P.TRUNCATE:
        kit.answer(kit.sent.pop(), code)
        assert said(kit) == f"answered {code.name}"


def test_no_answer_is_no_answer() -> None:
    kit = Kit()
    kit.silence(kit.one(P.COMPARE, 9))
    assert said(kit) == "no answer"
    kit.tick()
    kit.take(P.COMPARE)
    kit.tick()
    assert said(kit) == "no answer", "it has not come in time"


def said(kit: Kit) -> str:
    """Why the dispatcher has taken its state."""
    changed = kit.last.events[-1]
    assert isinstance(changed, DispatcherChanged)
    return changed.detail

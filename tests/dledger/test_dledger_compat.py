"""Upstream's looser rules as settings of the pure classes; what each does show the scripts."""

from __future__ import annotations

import attrs
import pytest
from dispatch_kit import Sizes

from actors.config import DLedgerGroup
from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.quorum import Quorum
from actors.dledger.core.settings import STRICT, AckSettings, CompatSettings, PushSettings
from actors.trees.ledger_setup import ledger_settings

FLAGS = [each.name for each in attrs.fields(CompatSettings) if each.name != "term_entry"]


def test_none_holds_by_default_and_all_of_them_with_upstream() -> None:
    assert [getattr(STRICT, name) for name in FLAGS] == [False] * len(FLAGS)
    assert [getattr(CompatSettings.upstream(), name) for name in FLAGS] == [True] * len(FLAGS)
    assert (STRICT.term_entry, CompatSettings.upstream().term_entry) == ("empty", "none")
    assert CompatSettings.upstream("empty").term_entry == "empty"


def test_a_term_that_opens_with_nothing_has_to_count_older_entries() -> None:
    with pytest.raises(AssertionError):
        CompatSettings(term_entry="none")
    assert CompatSettings(term_entry="none", count_older=True).count_older


def test_parts_take_what_concerns_them() -> None:
    upstream = CompatSettings.upstream()
    for compat, expected in ((STRICT, False), (upstream, True)):
        quorum = Quorum(self_id="n0", peers=("n1",), settings=AckSettings(), compat=compat)
        dispatch = Dispatch(peer="n1", settings=PushSettings(), sizes=Sizes(), compat=compat)
        assert (quorum.count_older, dispatch.search_by_one) == (expected, expected)


def test_the_store_of_a_group_follows_its_compat() -> None:
    for compat, expected in ((None, False), ("upstream", True)):
        group = DLedgerGroup(name="g", members=("n0", "n1", "n2"), compat=compat)
        store = ledger_settings(group)
        assert {store.vote_unsynced, store.cut_stays, store.cuts_committed} == {expected}

"""What a member remembers, proves and lets go of, broken on purpose: see `broken_actors`."""

from __future__ import annotations

from typing import Any

import attrs
from broken_core import Patch

from actors.dledger.core import election
from actors.dledger.core.leader_proof import Proven
from actors.dledger.core.member_state import TERM_NONE, Role
from actors.dledger.election import state_maintainer
from actors.storage.ledger import mark, store, store_messages
from actors.storage.log import truncation
from actors.storage.log.commit_log import segment_bases, segment_path


def reads_without_proof(patch: Patch) -> None:
    """Who believes to lead answers a fresh read without asking anybody."""

    def requested(self: Any, now_s: float, token: int) -> Any:
        self.now_s = now_s
        leads = self.state.role is Role.LEADER
        self.draft.proven.append(Proven(token, self.state.term if leads else TERM_NONE))
        return self.effects()

    patch.setattr(election.Election, "proof_requested", requested)


def vote_sent_before_it_is_saved(patch: Patch) -> None:
    """Terms and votes leave a member while its store is still to write them down."""
    real = state_maintainer.HeldEffects
    patch.setattr(state_maintainer, "HeldEffects", lambda waits: real(waits=False))


# ---- the store ----


def no_fence(patch: Patch) -> None:
    """The store takes writes of sessions that are over, as if they were of the present one."""
    real_append, real_change = store.Store._append_all, store.Store._change

    def append_all(self: Any, appends: list[store_messages.Append]) -> None:
        real_append(self, [attrs.evolve(each, session=self._session) for each in appends])

    async def change(self: Any, message: store_messages.Change) -> None:
        await real_change(self, attrs.evolve(message, session=self._session))

    patch.setattr(store.Store, "_append_all", append_all)
    patch.setattr(store.Store, "_change", change)


def cut_is_not_on_the_disk(patch: Patch) -> None:
    """What replaces the entries that were cut is written while the cut is in the page cache only:
    neither the mark nor the files are synced, and no intent is written down.
    """

    def lower(self: Any, end_bytes: int) -> None:
        was = self.values or mark.MarkValues()
        ends = min(was.end_bytes, end_bytes), min(was.whole_bytes, end_bytes)
        self.write(mark.MarkValues(*ends))

    def truncate(disk: Any, layout: Any, log: Any, end_bytes: int) -> None:
        log.forget_behind(end_bytes)
        bases = segment_bases(disk, log.folder)
        while bases[-1] >= end_bytes and len(bases) > 1:
            disk.unlink(segment_path(log.folder, bases.pop()))
        if bases[-1] + log.segment_bytes > end_bytes:
            file = disk.open(segment_path(log.folder, bases[-1]), "w")
            file.resize(max(end_bytes - bases[-1], 0))
            file.resize(log.segment_bytes)
            file.close()
        log.set_end(end_bytes)

    patch.setattr(mark.Mark, "lower", lower)
    patch.setattr(truncation, "truncate", truncate)

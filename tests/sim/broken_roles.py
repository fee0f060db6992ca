"""What decides who is master, what a slave keeps of its log, and the runtime below, broken on
purpose: see `broken_code`.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import Any

import attrs
import pytest

from actors.control import member_link
from actors.ha.core import freshness
from actors.ha.core.role_effects import Role
from actors.ha.core.role_rules import RoleRules
from actors.log_types import Promotion
from actors.node.classic import ClassicPart
from actors.runtime.mailbox import Mailbox
from actors.storage.commitlog import set_aside
from actors.storage.commitlog.pull_service import Pulled
from actors.storage.derived.derived_files import DerivedFiles

Patch = pytest.MonkeyPatch

NO_LIMIT = 1 << 60


def promotion_number_ignored(patch: Patch) -> None:
    """A slave follows whoever said last that it is the master, a master listens to nobody."""
    real = RoleRules.heard

    def heard(rules: Any, member: str, state: Any, *args: Any) -> Any:
        own, claimed = rules.promotion, Promotion(state.number, state.master)
        claims = state.role == "master" and state.node == state.master == member
        if claims and rules.role is Role.SLAVE and claimed != own:
            return rules._adopt(claimed)
        if not claims:
            state = attrs.evolve(state, number=min(state.number, own.number))
        elif rules.role is Role.MASTER:
            state = attrs.evolve(state, number=own.number, master=own.master)
        return real(rules, member, state, *args)

    patch.setattr(RoleRules, "heard", heard)


def conflation_in_place(patch: Patch) -> None:
    """A message that replaces an older one takes its place in the queue, before what came between.

    No history shows it, for each of our conflated messages says all that an older one said, and
    names its connection; so the mailbox looks itself.
    """

    def replace(box: Mailbox, message: object, key: Hashable, size_bytes: int) -> None:
        at, lane = box._keyed.get(key), box.lane
        if at is None:
            box._keyed[key] = len(lane.items)
            box._append(lane, message, size_bytes)
            return
        if box._size_of is not None:
            lane.size_bytes += size_bytes - box._size_of(lane.items[at])
        lane.items[at] = message
        box.conflated += 1

    patch.setattr(Mailbox, "_replace", replace)


def truncation_keeps_what_was_derived(patch: Patch) -> None:
    """A log is cut, and its queues and index go on behind its end."""
    real = DerivedFiles.recover

    def recover(files: Any, log_min_bytes: int, limit_bytes: int) -> Generator[None, None, int]:
        at_bytes = yield from real(files, log_min_bytes, NO_LIMIT)
        return min(at_bytes, limit_bytes)

    patch.setattr(DerivedFiles, "recover", recover)


def truncation_keeps_the_mark(patch: Patch) -> None:
    """A log is cut, and the synced mark says still that all of it is there."""
    patch.setattr(set_aside, "lower_side_file", lambda *args: None)


def a_member_is_heard_once(patch: Patch) -> None:
    """A member says what it is when that changes, and when it says nothing else; nobody asks."""
    started, verify = RoleRules.started, RoleRules.verify

    def no_questions(rules: Any, *args: Any, **more: Any) -> Any:
        return attrs.evolve(started(rules, *args, **more), ask=())

    def no_others(rules: Any, *args: Any) -> Any:
        effects = verify(rules, *args)
        return effects if rules._is_informed() else attrs.evolve(effects, ask=())

    heard = member_link.MemberLink._heard

    async def any_word_counts(link: Any, number: int, watching: Any, answer: Any) -> None:
        await heard(link, number, watching, answer)
        watching.watch.heard_s = link.ctx.now_s()

    patch.setattr(RoleRules, "started", no_questions)
    patch.setattr(RoleRules, "verify", no_others)
    patch.setattr(member_link.MemberLink, "_heard", any_word_counts)


def fresh_is_what_the_master_believes(patch: Patch) -> None:
    """A master's reads are fresh whatever has become of it, also before it has opened its log."""
    real = ClassicPart._read_fresh

    async def read_fresh(part: ClassicPart, start: int, max_bytes: int) -> Pulled:
        return await (ClassicPart._read if part.is_master else real)(part, start, max_bytes)

    patch.setattr(ClassicPart, "_read_fresh", read_fresh)


def nobody_confirms_the_master(patch: Patch) -> None:
    """An open master asks nobody whether another one was promoted meanwhile."""
    real = freshness.fresh_offset

    def offset(node: str, own: Any, states: Any, needed: Any) -> int | str:
        return real(node, own, states, lambda forced: 0)

    patch.setattr(freshness, "fresh_offset", offset)


def fresh_before_the_copies_are_back(patch: Patch) -> None:
    """What was acknowledged before the present master opened its log is not waited for."""
    real = freshness.fresh_offset

    def offset(*args: Any) -> int | str:
        found = real(*args)
        return found if isinstance(found, str) else 0

    patch.setattr(freshness, "fresh_offset", offset)

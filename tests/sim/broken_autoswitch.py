"""What is special about auto-switch groups, broken on purpose: see `broken_code`.

The sync state set, the lease, epochs and cuts, roles and identities, controllers, and reads.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import attrs
import pytest
from broken_code import (
    Mutation,
    acknowledge_before_the_slaves,
    acknowledge_before_write,
    report_before_write,
    timed_out_is_done,
)
from broken_roles import truncation_keeps_the_mark, truncation_keeps_what_was_derived
from broken_store import recovery_cuts_below_the_mark, show_what_is_not_acknowledged

from actors.broker.replicas_manager import ReplicasManager
from actors.controller.core import broker_sets
from actors.controller.core.broker_sets import BrokerSet, BrokerSets
from actors.epochs import History
from actors.ha.autoswitch.epoch_keeper import EpochKeeper
from actors.ha.autoswitch.messages import ChangeRole, RoleTaken
from actors.ha.autoswitch.replica_names import ReplicaNames
from actors.ha.autoswitch.role_owner import RoleOwner
from actors.ha.autoswitch.set_keeper import SetKeeper
from actors.ha.core import autoswitch_dialect, epoch_trail
from actors.ha.core.autoswitch_dialect import AutoSwitchDialect
from actors.ha.core.epoch_trail import Agreement, OwnLog, Verdict
from actors.ha.core.sync_state_set import InSyncStateSet, SyncStateSet
from actors.ha.own_epochs import OwnEpochs
from actors.ha.settings import ClientSettings
from actors.log_types import Offsets
from actors.node.autoswitch import AutoSwitchPart
from actors.storage.commitlog import epoch_store
from actors.storage.files import replacing
from actors.trees import autoswitch
from wire.broker import controller_events as changes
from wire.broker.codes import ResponseCode

Patch = pytest.MonkeyPatch
FAR = 1 << 40

# ---- the sync state set ----


def confirms_alone(patch: Patch) -> None:
    """A master confirms what it has itself, whatever the others have."""

    def confirm(members: SyncStateSet) -> None:
        members.confirm_bytes = max(members.confirm_bytes, members.end_bytes)

    patch.setattr(SyncStateSet, "_confirm", confirm)


def confirms_without_absent(patch: Patch) -> None:
    """A member that is not connected holds nothing up."""
    real = SyncStateSet._confirm

    def confirm(members: SyncStateSet) -> None:
        present = members._replicas.keys() | {members.own}
        whole, members.members = members.members, members.members & present
        real(members)
        members.members = whole

    patch.setattr(SyncStateSet, "_confirm", confirm)


def confirms_what_one_other_has(patch: Patch) -> None:
    """Of the members it is enough that the furthest one has it."""

    def confirm(members: SyncStateSet) -> None:
        acks = [each.ack_bytes or 0 for each in members._replicas.values()]
        held = max(acks, default=members.end_bytes if len(members.members) == 1 else 0)
        members.confirm_bytes = max(members.confirm_bytes, min(held, members.end_bytes))

    patch.setattr(SyncStateSet, "_confirm", confirm)


def whoever_was_asked_for_is_no_member_yet(patch: Patch) -> None:
    """A replica counts only once the master has heard that the controllers have it in the set."""
    patch.setattr(SyncStateSet, "effective", property(lambda members: members.members))


def whoever_is_to_leave_is_no_member_any_more(patch: Patch) -> None:
    """A replica counts no more as soon as the controllers are asked for a set without it."""
    real = SyncStateSet._confirm

    def confirm(members: SyncStateSet) -> None:
        whole = members.members
        if members._asked is not None:
            members.members = whole & members._asked
        real(members)
        members.members = whole

    patch.setattr(SyncStateSet, "_confirm", confirm)


def lost_answer_is_a_refusal(patch: Patch) -> None:
    """A request whose answer was lost counts as one that was not carried out."""

    def unanswered(members: SyncStateSet, now_s: float) -> None:
        members._asked, members._doubtful = None, frozenset()

    patch.setattr(SyncStateSet, "unanswered", unanswered)


def set_is_grown_too_early(patch: Patch) -> None:
    """A replica joins that has connected, however much it lacks."""

    def joins(members: SyncStateSet, found: Any) -> bool:
        return not found.async_learner and found.ack_bytes is not None

    def wanted(members: SyncStateSet) -> frozenset[int]:
        joining = {key for key, each in members._replicas.items() if joins(members, each)}
        return members.members | joining

    patch.setattr(SyncStateSet, "_wanted", wanted)


def learner_joins(patch: Patch) -> None:
    """A learner is taken for any other replica."""
    real = SyncStateSet.joined

    def joined(members: SyncStateSet, *args: Any, async_learner: bool) -> None:
        real(members, *args, async_learner=False)

    patch.setattr(SyncStateSet, "joined", joined)


def learner_asks_for_an_election(patch: Patch) -> None:
    """A learner that comes first has itself elected."""
    real = autoswitch._replicas_manager

    def manager(own: Any) -> ReplicasManager:
        found = real(own)
        found.settings = attrs.evolve(found.settings, is_learner=False)
        return found

    patch.setattr(autoswitch, "_replicas_manager", manager)


def nobody_leaves(patch: Patch) -> None:
    """A member stays one, whether it is connected or not."""
    patch.setattr(SyncStateSet, "_leaves", lambda members, replica: False)


def ghost_is_meant(patch: Patch) -> None:
    """Of two replicas at one address the older one is meant."""

    def at(names: ReplicaNames, address: str) -> int | None:
        here = (each for each, place in names.registered().items() if place == address)
        return min(here, default=None)

    patch.setattr(ReplicaNames, "_at", at)


def written_counts(patch: Patch) -> None:
    """A master counts what it has written, and not synced."""
    real = autoswitch.SetKeeper

    def make(**given: Any) -> SetKeeper:
        return real(**{**given, "synced": False})

    patch.setattr(autoswitch, "SetKeeper", make)
    wait = autoswitch.TransferWait
    patch.setattr(autoswitch, "TransferWait", lambda **given: wait(**{**given, "synced": False}))


def slaves_report_what_they_have_written(patch: Patch) -> None:
    """A slave reports before its sync."""
    patch.setattr(
        autoswitch, "ClientSettings", lambda **given: ClientSettings(**{**given, "synced": False})
    )


def any_number_is_enough(patch: Patch) -> None:
    """A master goes on with fewer in sync than the group needs."""
    real, confirm = InSyncStateSet.refusal, SyncStateSet._confirm

    def confirms(members: SyncStateSet) -> None:
        members.least = 1
        confirm(members)

    patch.setattr(SyncStateSet, "_confirm", confirms)

    def refusal(policy: InSyncStateSet, *args: Any) -> str:
        return real(attrs.evolve(policy, min_in_sync_replicas=1), *args)

    patch.setattr(InSyncStateSet, "refusal", refusal)


# ---- the lease ----


def lease_is_ignored(patch: Patch) -> None:
    """A master confirms whatever time has passed since a controller answered."""
    patch.setattr(SyncStateSet, "has_lease", property(lambda members: True))


def fresh_by_the_lease_alone(patch: Patch) -> None:
    """A fresh read is answered by a master that no controller has confirmed since it came."""
    patch.setattr(AutoSwitchPart, "is_confirmed", lambda part, asked_s: part.is_open)


# ---- power losses, where copies are what was written ----


def a_power_loss_leaves_no_doubt(patch: Patch) -> None:
    """A replica that was not stopped in order says at once that it lives, whatever it had."""
    real = autoswitch._replicas_manager

    def manager(own: Any) -> ReplicasManager:
        found = real(own)
        found.doubts = lambda: None
        return found

    patch.setattr(autoswitch, "_replicas_manager", manager)


# ---- epochs and cuts ----


def _agreement(patch: Patch, change: Any) -> None:
    real = OwnLog.agree

    def agree(log: OwnLog, *args: Any, **given: Any) -> Agreement:
        found: Agreement = change(log, real(log, *args, **given))
        return found

    patch.setattr(OwnLog, "agree", agree)


def no_cut(patch: Patch) -> None:
    """A replica follows its master without cutting what that does not have."""

    def change(log: OwnLog, found: Agreement) -> Agreement:
        if found.verdict is not Verdict.CUT:
            return found
        return attrs.evolve(found, verdict=Verdict.FOLLOWS, end_bytes=log.end_bytes)

    _agreement(patch, change)


def cut_at_the_last_epoch(patch: Patch) -> None:
    """A replica whose log parts from its master's cuts its whole last epoch."""

    def change(log: OwnLog, found: Agreement) -> Agreement:
        if found.verdict is not Verdict.CUT:
            return found
        start = log.history[-1].start_bytes if log.history else 0
        return attrs.evolve(found, end_bytes=min(start, found.end_bytes))

    _agreement(patch, change)


def always_from_nothing(patch: Patch) -> None:
    """A replica that follows a new master begins with an empty log."""

    def change(log: OwnLog, found: Agreement) -> Agreement:
        cuts = found.verdict is Verdict.FOLLOWS and log.end_bytes > 0 and len(log.history) > 1
        if found.verdict is not Verdict.CUT and not cuts:
            return found
        return attrs.evolve(found, verdict=Verdict.CUT, end_bytes=0)

    _agreement(patch, change)


def where_logs_part_is_the_shorter_ones_end(patch: Patch) -> None:
    """The consistent point is the end of the shorter log, whatever epochs say."""
    real = epoch_trail.compare

    def compare(own: History, own_end: int, other: History, other_end: int) -> Any:
        found = real(own, own_end, other, other_end)
        return attrs.evolve(found, consistent_bytes=min(own_end, other_end))

    patch.setattr(epoch_trail, "compare", compare)


def epochs_are_not_kept(patch: Patch) -> None:
    """The epoch file is not written."""
    patch.setattr(epoch_store, "replace_file", lambda disk, path, data: None)


def epochs_are_not_synced(patch: Patch) -> None:
    """The epoch file is written, and neither it nor its name is on the disk after that."""

    def write(disk: Any, path: str, data: bytes) -> None:
        replacing._write(disk, replacing.spare_path(path), data, sync=False)
        replacing._put_in_place(disk, path)

    patch.setattr(epoch_store, "replace_file", write)


def epoch_begins_early(patch: Patch) -> None:
    """A master's epoch begins below the end of the log that it takes over."""
    real = EpochKeeper._open

    def begin(keeper: EpochKeeper, held: Any) -> Generator[None, None, str]:
        end = held.written_bytes
        early = attrs.evolve(held, written_bytes=max(end - 100, 0))
        return real(keeper, early)

    patch.setattr(EpochKeeper, "_open", begin)


def masters_epochs_are_not_taken(patch: Patch) -> None:
    """A slave has its master's bytes, and not the epochs of them."""
    patch.setattr(OwnEpochs, "follow", lambda epochs, theirs, end_bytes: None)


def frames_name_the_newest_epoch(patch: Patch) -> None:
    """A master sends old bytes under its own epoch."""

    def answer(dialect: AutoSwitchDialect, offset_bytes: int, size_bytes: int) -> bytes:
        epoch = dialect.handshake.history()[-1]
        return autoswitch_dialect.autoswitch.encode_frame_header(
            autoswitch_dialect.EpochFrameStarted(
                offset_bytes, size_bytes, epoch.number, epoch.start_bytes, dialect.confirm()
            )
        )

    patch.setattr(AutoSwitchDialect, "encode_frame_header", answer)


def only_the_last_epoch_is_told(patch: Patch) -> None:
    """A master that answers a handshake tells its last epoch alone."""
    real = autoswitch_dialect.listed
    patch.setattr(autoswitch_dialect, "listed", lambda history: real(history)[-1:])


# ---- roles, identities ----


def identity_is_not_kept(patch: Patch) -> None:
    """A replica forgets its id at a restart, and takes another one."""
    patch.setattr(ReplicasManager, "_read", lambda manager: None)


def deposed_master_stays(patch: Patch) -> None:
    """A master that hears of another one goes on as it was."""
    real = RoleOwner._change

    async def change(owner: RoleOwner, message: ChangeRole) -> None:
        if owner.owned.leads and message.role.master != message.broker_id:
            message.reply_to.send(RoleTaken(message.role.epoch))
        else:
            await real(owner, message)

    patch.setattr(RoleOwner, "_change", change)


# ---- controllers ----


def whoever_lives_is_elected(patch: Patch) -> None:
    """A replica that was not in the sync state set is elected, too."""
    real = BrokerSets._best

    def best(sets: BrokerSets, found: BrokerSet, alive: Any, preferred: int | None) -> int | None:
        everybody = attrs.evolve(found, in_sync=tuple(found.replicas))
        return real(sets, everybody, alive, preferred)

    patch.setattr(BrokerSets, "_best", best)


def an_operator_gets_whom_he_names(patch: Patch) -> None:
    """Who is named is elected, in the sync state set or not."""
    real = BrokerSets._best

    def best(sets: BrokerSets, found: BrokerSet, alive: Any, preferred: int | None) -> int | None:
        return preferred if preferred in alive else real(sets, found, alive, preferred)

    patch.setattr(BrokerSets, "_best", best)


def epoch_stays_at_an_election(patch: Patch) -> None:
    """The next master has the epoch of the one before."""
    real = broker_sets._changed

    def changed(before: BrokerSet, event: Any) -> BrokerSet | None:
        after = real(before, event)
        if isinstance(event, changes.ElectMaster) and after is not None and before.master_epoch:
            return attrs.evolve(after, master_epoch=before.master_epoch)
        return after

    patch.setattr(broker_sets, "_changed", changed)


def anybody_alters_the_set(patch: Patch) -> None:
    """Controllers take a sync state set of whatever master, epoch and number."""
    real = broker_sets._alter_problem

    def problem(found: BrokerSet, asked: Any, epoch: int, members: Any, alive: Any) -> Any:
        said = real(found, asked, epoch, members, alive)
        fences = (
            ResponseCode.CONTROLLER_INVALID_MASTER,
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        )
        return None if said is not None and said.code in fences else said

    patch.setattr(broker_sets, "_alter_problem", problem)


# ---- reads ----


def shows_what_is_confirmed_so_far(patch: Patch) -> None:
    """A fresh read of a new master does not wait for what the master before acknowledged."""

    async def known(part: AutoSwitchPart, above: int) -> Offsets:
        return await part.wait_offsets(None)

    patch.setattr(AutoSwitchPart, "wait_acknowledged", known)


def slaves_show_what_they_have(patch: Patch) -> None:
    """A slave shows its whole log, whatever its master has confirmed."""
    real = OwnEpochs.may_see
    patch.setattr(OwnEpochs, "may_see", lambda epochs, confirm: real(epochs, FAR))


def confirmed_is_what_was_written(patch: Patch) -> None:
    """A master tells its slaves its log's end as its confirm offset."""
    real = autoswitch._dialect

    def dialect(own: Any, setup: Any) -> AutoSwitchDialect:
        return attrs.evolve(real(own, setup), confirm=lambda: own.replica.epochs.end_bytes)

    patch.setattr(autoswitch, "_dialect", dialect)


AUTOSWITCH_MUTATIONS: tuple[Mutation, ...] = (
    confirms_alone,
    confirms_without_absent,
    confirms_what_one_other_has,
    whoever_was_asked_for_is_no_member_yet,
    whoever_is_to_leave_is_no_member_any_more,
    lost_answer_is_a_refusal,
    set_is_grown_too_early,
    learner_joins,
    learner_asks_for_an_election,
    nobody_leaves,
    ghost_is_meant,
    written_counts,
    slaves_report_what_they_have_written,
    any_number_is_enough,
    lease_is_ignored,
    fresh_by_the_lease_alone,
    a_power_loss_leaves_no_doubt,
    no_cut,
    cut_at_the_last_epoch,
    always_from_nothing,
    where_logs_part_is_the_shorter_ones_end,
    epochs_are_not_kept,
    epochs_are_not_synced,
    epoch_begins_early,
    masters_epochs_are_not_taken,
    frames_name_the_newest_epoch,
    only_the_last_epoch_is_told,
    identity_is_not_kept,
    deposed_master_stays,
    whoever_lives_is_elected,
    an_operator_gets_whom_he_names,
    epoch_stays_at_an_election,
    anybody_alters_the_set,
    shows_what_is_confirmed_so_far,
    slaves_show_what_they_have,
    confirmed_is_what_was_written,
    acknowledge_before_write,
    acknowledge_before_the_slaves,
    timed_out_is_done,
    report_before_write,
    recovery_cuts_below_the_mark,
    truncation_keeps_what_was_derived,
    truncation_keeps_the_mark,
    show_what_is_not_acknowledged,
)
"""All of them; the last ones break what other commit logs rely on, too."""

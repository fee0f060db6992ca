"""Broker sets, as all controllers of a group know them: what is asked, decided and applied.

Source: apache/rocketmq, controller/.../impl/manager/ReplicasInfoManager.java and
elect/impl/DefaultElectPolicy.java, 5.3.3; autoswitch-ha.md 7.1, 7.2, 7.4, 6.6.

The leader decides: a decision has an answer, and an event if something changes. The event is
appended to the controllers' log; once it is committed every controller applies it, and the answer
is sent. So nothing here changes but by `apply`, and the same events make the same sets everywhere.

Who lives, only the leader knows: decisions take the living replicas of the set by id.

Differs from upstream:
- An id that was given is never offered again, also if ids were applied for out of order.
- Equal candidates are told apart by their ids; upstream compares 32 bits of the difference of
  offsets, and of two that are equal by that it forgets one (autoswitch-ha.md T30).
- To clean living replicas by id cleans these; upstream forgets the whole set then. A set stays
  known when all of its sync state set is cleaned: nobody is elected then but by `unclean`. Upstream
  forgets it, and the next replica that asks is master, whatever it holds.
- A first master has to be one that the controller knows.
- A set without a master is one that wants an election as soon as one of its sync state set lives,
  whenever that is: `wanting`. Upstream looks once, when a master dies (autoswitch-ha.md T35).
- A controller that finds nobody to elect clears the master once. Upstream raises the epoch each of
  three times that it tries (autoswitch-ha.md T24).
- There are bounds for sets, replicas, and the length of what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from actors.controller.core.liveness import Living
from wire.broker import controller as said
from wire.broker import controller_events as events
from wire.broker.codes import ResponseCode
from wire.broker.dialect import Body, Fields
from wire.broker.routes import BrokerMemberGroup

FIRST_ID: Final = 1
IDS_AHEAD_MAX: Final = 100
"""How far above the next id a replica may apply, so that nobody takes a set's ids away."""
SETS_MAX: Final = 10_000
"""Broker sets of one group of controllers."""
REPLICAS_MAX: Final = 100
"""Replicas of one set."""
TEXT_CHARS_MAX: Final = 512
"""Of each name, address and check code."""

Alive: TypeAlias = Mapping[int, Living]
"""The living replicas of the set in question, by id."""


@attrs.frozen
class Replica:
    """A replica of a set.

    Attributes:
        address: where brokers and clients reach it, "host:port".
        check_code: said when it applied for its id; who repeats it gets the same id.
    """

    address: str
    check_code: str


@attrs.frozen(kw_only=True)
class BrokerSet:
    """What the controllers agree on about one set.

    Attributes:
        next_id: the lowest id that nobody was ever given.
        master_id: None: there is no master.
        master_epoch: counts elections, also those that found nobody; 0: there was none.
        in_sync: the sync state set, ids in ascending order. It is what the last master had if there
            is none now.
        in_sync_epoch: counts its changes.
    """

    cluster: str
    name: str
    next_id: int = FIRST_ID
    replicas: Mapping[int, Replica] = attrs.field(factory=dict)
    master_id: int | None = None
    master_epoch: int = 0
    in_sync: tuple[int, ...] = ()
    in_sync_epoch: int = 0

    @property
    def master_address(self) -> str | None:
        """Where the master is, if there is one."""
        return None if self.master_id is None else self.address(self.master_id)

    def address(self, broker_id: int) -> str | None:
        """Where a replica is; None: there is none of that id."""
        found = self.replicas.get(broker_id)
        return None if found is None else found.address

    @property
    def sync_state_set(self) -> said.SyncStateSet:
        """The set as it is sent."""
        return said.SyncStateSet(
            sync_state_set=self.in_sync, sync_state_set_epoch=self.in_sync_epoch
        )


@attrs.frozen(kw_only=True)
class Decision:
    """What the leader does about a request.

    Attributes:
        code, remark, fields, body: the answer, to be sent once the event is committed.
        event: what changes; None: nothing.
    """

    code: ResponseCode = ResponseCode.SUCCESS
    remark: str | None = None
    fields: Fields | None = None
    body: Body | None = None
    event: events.ControllerEvent | None = None


@attrs.define
class BrokerSets:
    """The sets by name.

    Attributes:
        unclean: whether a replica may be elected that was not in the sync state set; what only its
            members held is lost then. Upstream: enableElectUncleanMaster.
    """

    unclean: bool = False
    _sets: dict[str, BrokerSet] = attrs.field(factory=dict)

    def __iter__(self) -> Iterator[BrokerSet]:
        return iter(self._sets.values())

    def get(self, name: str) -> BrokerSet | None:
        """The set of that name."""
        return self._sets.get(name)

    # ---- what is asked ----

    def alter(
        self, asked: said.AlterSyncStateSet, wanted: said.SyncStateSet, alive: Alive
    ) -> Decision:
        """Decide on another sync state set, which the master asks for (1001)."""
        found = self._sets.get(asked.broker_name)
        if found is None:
            return _not_altered("Broker metadata is not existed")
        members = tuple(sorted(set(wanted.sync_state_set)))
        problem = _alter_problem(found, asked, wanted.sync_state_set_epoch, members, alive)
        if problem is not None:
            return problem
        epoch = found.in_sync_epoch + 1
        return Decision(
            fields=said.NewSyncStateSetEpoch(new_sync_state_set_epoch=epoch),
            body=said.SyncStateSet(sync_state_set=members, sync_state_set_epoch=epoch),
            event=events.AlterSyncStateSet(broker_name=found.name, new_sync_state_set=members),
        )

    def elect(self, asked: said.ElectMaster, alive: Alive) -> Decision:
        """Decide who is master (1002)."""
        found = self._sets.get(asked.broker_name)
        if found is None:
            code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
            return Decision(code=code, remark="Broker hasn't been registered")
        by_itself = asked.broker_id == said.CONTROLLER_ITSELF
        if found.master_epoch == 0 and asked.broker_id in found.replicas:
            chosen: int | None = asked.broker_id
        else:
            preferred = asked.broker_id if asked.designate_elect and not by_itself else None
            chosen = self._best(found, alive, preferred)
        if chosen is None:
            return _nobody(found, by_itself=by_itself)
        if chosen == found.master_id:
            return Decision(
                code=ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
                remark=f"The old master {chosen} is still alive, not need to elect new master for "
                f"broker {found.name}",
                fields=_elected(found, chosen, found.master_epoch, found.in_sync_epoch),
                body=said.ElectMasterResponseBody(sync_state_set=found.in_sync),
            )
        addresses = {key: each.address for key, each in found.replicas.items()}
        return Decision(
            fields=_elected(found, chosen, found.master_epoch + 1, found.in_sync_epoch + 1),
            body=said.ElectMasterResponseBody(
                broker_member_group=BrokerMemberGroup(
                    broker_addrs=addresses, broker_name=found.name, cluster=found.cluster
                ),
                sync_state_set=(chosen,),
            ),
            event=events.ElectMaster(
                broker_name=found.name, new_master_broker_id=chosen, new_master_elected=True
            ),
        )

    def next_id(self, asked: said.BrokerSet) -> Decision:
        """Tell an id that nobody was given (1012); to take it is another request."""
        found = self._sets.get(asked.broker_name)
        return Decision(
            fields=said.NextBrokerId(
                broker_name=asked.broker_name,
                cluster_name=asked.cluster_name,
                next_broker_id=FIRST_ID if found is None else found.next_id,
            )
        )

    def apply_id(self, asked: said.ApplyBrokerId) -> Decision:
        """Give a replica the id that it wants (1013)."""
        found = self._sets.get(asked.broker_name)
        broker_id, code = asked.applied_broker_id, asked.register_check_code
        answer = said.BrokerSet(broker_name=asked.broker_name, cluster_name=asked.cluster_name)
        problem = self._apply_problem(found, asked)
        if problem:
            invalid = ResponseCode.CONTROLLER_BROKER_ID_INVALID
            return Decision(code=invalid, remark=problem, fields=answer)
        if found is not None and broker_id in found.replicas:
            return Decision(fields=answer)
        return Decision(
            fields=answer,
            event=events.ApplyBrokerId(
                broker_address=code.partition(";")[0],
                broker_name=asked.broker_name,
                cluster_name=asked.cluster_name,
                new_broker_id=broker_id,
                register_check_code=code,
            ),
        )

    def register(self, asked: said.RegisterToController, alive: Alive) -> Decision:
        """Note a replica's address, and tell it the master, if that lives (1003)."""
        found = self._sets.get(asked.broker_name)
        answer = said.RegisteredToController(
            broker_name=asked.broker_name, cluster_name=asked.cluster_name
        )
        if found is None or asked.broker_id not in found.replicas:
            what = f"Broker-set: {asked.broker_name} hasn't been registered in controller"
            if found is not None:
                what = f"BrokerId: {asked.broker_id} hasn't been registered in broker-set: "
                what += asked.broker_name
            unknown = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
            return Decision(code=unknown, remark=what, fields=answer)
        if len(asked.broker_address) > TEXT_CHARS_MAX:
            what = f"brokerAddress has more than {TEXT_CHARS_MAX} characters"
            code = ResponseCode.CONTROLLER_INVALID_REQUEST
            return Decision(code=code, remark=what, fields=answer)
        if found.master_id in alive:
            answer = said.RegisteredToController(
                broker_name=asked.broker_name,
                cluster_name=asked.cluster_name,
                master_address=found.master_address,
                master_broker_id=found.master_id,
                master_epoch=found.master_epoch,
                sync_state_set_epoch=found.in_sync_epoch,
            )
        event = None
        if found.address(asked.broker_id) != asked.broker_address:
            event = events.UpdateBrokerAddress(
                broker_address=asked.broker_address,
                broker_id=asked.broker_id,
                broker_name=found.name,
                cluster_name=found.cluster,
            )
        return Decision(fields=answer, body=found.sync_state_set, event=event)

    def replica_info(self, asked: said.BrokerSet) -> Decision:
        """Tell who is master, and the sync state set (1004)."""
        found = self._sets.get(asked.broker_name)
        if found is None:
            code = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
            return Decision(
                code=code, remark="Broker metadata is not existed", fields=said.ReplicaInfo()
            )
        return Decision(
            fields=said.ReplicaInfo(
                master_address=found.master_address,
                master_broker_id=found.master_id,
                master_epoch=found.master_epoch,
            ),
            body=found.sync_state_set,
        )

    def sync_state_data(
        self, names: Iterable[str], alive_of: Callable[[BrokerSet], Alive]
    ) -> Decision:
        """Tell the replicas of sets, in and out of the sync state set (1006).

        Args:
            names: of the sets; unknown ones are left out.
            alive_of: gives the living replicas of a set.
        """
        names = dict.fromkeys(names)
        known = [found for name in names if (found := self._sets.get(name)) is not None]
        table = {found.name: _replicas_info(found, alive_of(found)) for found in known}
        return Decision(body=said.BrokerReplicasInfo(replicas_info_table=table))

    def clean(self, asked: said.CleanBrokerData, alive: Alive) -> Decision:
        """Forget replicas, or a whole set (1011)."""
        found = self._sets.get(asked.broker_name)
        if found is None:
            return _not_cleaned(
                f"Broker {asked.broker_name} is not existed,clean broker data failure."
            )
        ids: tuple[int, ...] | None = None
        if text := (asked.broker_controller_ids_to_clean or "").strip():
            try:
                ids = tuple(sorted({int(each) for each in text.split(";")}))
            except ValueError:
                return _not_cleaned(
                    "brokerControllerIdsToClean: expected ids with ; between, such as 1;2"
                )
        if not asked.is_clean_living_broker:
            if ids is None and found.master_id is not None:
                return _not_cleaned(f"Broker {found.name} is still alive, clean up failure")
            for living in sorted(alive.keys() & set(ids or ())):
                return _not_cleaned(
                    f"Broker [{found.name},  {living}] is still alive, clean up failure"
                )
        event = events.CleanBrokerData(broker_id_set_to_clean=ids, broker_name=found.name)
        return Decision(event=event)

    def wanting(self, name: str, alive: Alive) -> said.ElectMaster | None:
        """The election that a set needs now, or None.

        It is one if its master is dead and another replica lives, or if it has no master, has had
        one, and somebody lives who may be elected.
        """
        found = self._sets[name]
        if not alive or (found.master_id is not None and found.master_id in alive):
            return None
        had_none = found.master_id is None
        if had_none and (found.master_epoch == 0 or self._best(found, alive, None) is None):
            return None
        return said.ElectMaster(broker_name=name, cluster_name=found.cluster)

    # ---- what was decided ----

    def apply(self, event: events.ControllerEvent) -> None:
        """Change the sets by a committed event. One about an unknown set changes nothing."""
        found = self._sets.get(event.broker_name)
        if isinstance(event, events.ApplyBrokerId):
            before = found or BrokerSet(cluster=event.cluster_name, name=event.broker_name)
            self._sets[event.broker_name] = _with_replica(before, event)
        elif found is not None:
            after = _changed(found, event)
            if after is None:
                del self._sets[event.broker_name]
            else:
                self._sets[event.broker_name] = after

    def restore(self, found: BrokerSet) -> None:
        """Take a set as it was saved."""
        self._sets[found.name] = found

    def _best(self, found: BrokerSet, alive: Alive, preferred: int | None) -> int | None:
        """Who is to be master: of the sync state set, else of all if that is allowed."""
        for candidates in (found.in_sync, tuple(found.replicas) if self.unclean else ()):
            living = [each for each in candidates if each in alive and each in found.replicas]
            if not living:
                continue
            if found.master_id in living and preferred in (None, found.master_id):
                return found.master_id
            if preferred is None:
                return min(living, key=lambda each: _rank(alive[each], each))
            if preferred in living:
                return preferred
        return None

    def _apply_problem(self, found: BrokerSet | None, asked: said.ApplyBrokerId) -> str:
        broker_id, name = asked.applied_broker_id, asked.broker_name
        texts = (name, asked.cluster_name, asked.register_check_code)
        if any(len(each) > TEXT_CHARS_MAX for each in texts):
            return f"a name or check code has more than {TEXT_CHARS_MAX} characters"
        if found is None:
            if broker_id != FIRST_ID:
                return (
                    f"Broker-set: {name} hasn't been registered in controller, but broker try to"
                    f" apply brokerId: {broker_id}"
                )
            too_many = len(self._sets) >= SETS_MAX
            return f"there are {SETS_MAX} broker sets already" if too_many else ""
        held = found.replicas.get(broker_id)
        if held is None and len(found.replicas) >= REPLICAS_MAX:
            return f"broker-set {name} has {REPLICAS_MAX} replicas already"
        free = found.next_id <= broker_id <= found.next_id + IDS_AHEAD_MAX
        if free or (held is not None and held.check_code == asked.register_check_code):
            return ""
        return f"Fail to apply brokerId: {broker_id} in broker-set: {name}"


def _alter_problem(
    found: BrokerSet,
    asked: said.AlterSyncStateSet,
    epoch: int,
    members: tuple[int, ...],
    alive: Alive,
) -> Decision | None:
    """The refusal, by upstream's checks in their order."""
    why = "Rejecting alter syncStateSet request because the "
    if members == found.in_sync:
        return _not_altered(
            "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
        )
    if found.master_id is None or found.master_id != asked.master_broker_id:
        master = "null" if found.master_id is None else found.master_id
        return _not_altered(
            f"{why}current leader is:{{{master}}}, not {{{asked.master_broker_id}}}",
            ResponseCode.CONTROLLER_INVALID_MASTER,
        )
    if found.master_epoch != asked.master_epoch:
        return _not_altered(
            f"{why}current master epoch is:{{{found.master_epoch}}}, not {{{asked.master_epoch}}}",
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        )
    if found.in_sync_epoch != epoch:
        return _not_altered(
            f"{why}current syncStateSet epoch is:{{{found.in_sync_epoch}}}, not {{{epoch}}}",
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        )
    for member in members:
        if member not in found.replicas:
            invalid = ResponseCode.CONTROLLER_INVALID_REPLICAS
            return _not_altered(f"{why}replicas {{{member}}} don't exist", invalid)
        if member not in alive:
            dead = ResponseCode.CONTROLLER_BROKER_NOT_ALIVE
            return _not_altered(f"{why}replicas {{{member}}} don't alive", dead)
    if found.master_id not in members:
        return _not_altered(
            f"{why}newSyncStateSet don't contains origin leader {{{found.master_id}}}"
        )
    return None


def _not_altered(
    remark: str, code: ResponseCode = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
) -> Decision:
    return Decision(code=code, remark=remark, fields=said.NewSyncStateSetEpoch())


def _not_cleaned(remark: str) -> Decision:
    return Decision(code=ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark=remark)


def _nobody(found: BrokerSet, *, by_itself: bool) -> Decision:
    """The answer if nobody can be elected; the controller's own request clears a dead master."""
    if not by_itself:
        failed = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        return Decision(code=failed, remark="Failed to elect a new master")
    event = events.ElectMaster(broker_name=found.name) if found.master_id is not None else None
    return Decision(
        code=ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
        remark="Old master has down and failed to elect a new broker master",
        event=event,
    )


def _replicas_info(found: BrokerSet, alive: Alive) -> said.ReplicasInfo:
    replicas = {
        key: said.ReplicaIdentity(
            alive=key in alive,
            broker_address=each.address,
            broker_id=key,
            broker_name=found.name,
        )
        for key, each in sorted(found.replicas.items())
    }
    return said.ReplicasInfo(
        in_sync_replicas=tuple(each for key, each in replicas.items() if key in found.in_sync),
        master_address=found.master_address,
        master_broker_id=found.master_id,
        master_epoch=found.master_epoch,
        not_in_sync_replicas=tuple(
            each for key, each in replicas.items() if key not in found.in_sync
        ),
        sync_state_set_epoch=found.in_sync_epoch,
    )


def _elected(found: BrokerSet, chosen: int, epoch: int, in_sync_epoch: int) -> said.ElectedMaster:
    return said.ElectedMaster(
        master_address=found.address(chosen),
        master_broker_id=chosen,
        master_epoch=epoch,
        sync_state_set_epoch=in_sync_epoch,
    )


def _rank(living: Living, broker_id: int) -> tuple[int, int, int, int]:
    """Candidates in order, the best one first."""
    return -living.epoch, -living.max_offset, living.priority, broker_id


def _with_replica(before: BrokerSet, event: events.ApplyBrokerId) -> BrokerSet:
    if event.new_broker_id in before.replicas:
        return before
    added = Replica(event.broker_address, event.register_check_code)
    return attrs.evolve(
        before,
        next_id=max(before.next_id, event.new_broker_id + 1),
        replicas={**before.replicas, event.new_broker_id: added},
    )


def _changed(before: BrokerSet, event: events.ControllerEvent) -> BrokerSet | None:
    """The set after an event; None: it is forgotten."""
    match event:
        case events.AlterSyncStateSet(new_sync_state_set=members):
            epoch = before.in_sync_epoch + 1
            return attrs.evolve(before, in_sync=tuple(sorted(members)), in_sync_epoch=epoch)
        case events.ElectMaster(new_master_elected=True, new_master_broker_id=int(master)):
            return attrs.evolve(
                before,
                master_id=master,
                master_epoch=before.master_epoch + 1,
                in_sync=(master,),
                in_sync_epoch=before.in_sync_epoch + 1,
            )
        case events.ElectMaster():
            return attrs.evolve(before, master_id=None, master_epoch=before.master_epoch + 1)
        case events.UpdateBrokerAddress(broker_id=key, broker_address=address):
            if key not in before.replicas:
                return before
            moved = attrs.evolve(before.replicas[key], address=address)
            return attrs.evolve(before, replicas={**before.replicas, key: moved})
        case events.CleanBrokerData(broker_id_set_to_clean=ids):
            return _cleaned(before, ids)
        case _:
            return before


def _cleaned(before: BrokerSet, ids: tuple[int, ...] | None) -> BrokerSet | None:
    left = {key: each for key, each in before.replicas.items() if key not in (ids or ())}
    in_sync = tuple(each for each in before.in_sync if each in left)
    if not ids:
        return None
    master_id = before.master_id if before.master_id in left else None
    return attrs.evolve(
        before,
        replicas=left,
        in_sync=in_sync,
        in_sync_epoch=before.in_sync_epoch + (in_sync != before.in_sync),
        master_id=master_id,
    )

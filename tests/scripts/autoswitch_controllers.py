"""A controller that leads, in the hands of a script, with one broker set: ours, and upstream's.

Ours are the product's decisions, applied as soon as they are made. Upstream's are a model of
ReplicasInfoManager, DefaultElectPolicy and DefaultBrokerHeartbeatManager (5.3.3), as
autoswitch-ha.md 7.2 to 7.5 say.
"""

from __future__ import annotations

import attrs

from actors.controller.core.broker_sets import BrokerSets, Decision
from actors.controller.core.liveness import Liveness, Living
from wire.broker import controller as said

CLUSTER, SET = "c", "s"
TRIES = 3
"""Elections of upstream's controller by itself. Upstream: electMasterMaxRetryCount."""
INT_BITS = 32


def ids(text: object) -> tuple[int, ...]:
    return tuple(map(int, str(text).split(",")))


def shown(members: tuple[int, ...]) -> str:
    return ",".join(map(str, members)) or "nobody"


@attrs.frozen
class Beat:
    """A heartbeat: of which replica, on which connection, and what it says of its log."""

    replica: int
    link: int
    epoch: int
    end: int
    priority: int
    timeout_s: float


@attrs.define
class OurController:
    """By the product's rules."""

    unclean: bool
    _sets: BrokerSets = attrs.field(init=False)
    _living: Liveness = attrs.field(factory=Liveness)

    def __attrs_post_init__(self) -> None:
        self._sets = BrokerSets(self.unclean)

    def apply_id(self, replica: int) -> str:
        return self._decide(
            self._sets.apply_id(
                said.ApplyBrokerId(
                    broker_name=SET,
                    cluster_name=CLUSTER,
                    applied_broker_id=replica,
                    register_check_code=f"n{replica}:1;1",
                )
            )
        )

    def heartbeat(self, beat: Beat, now_s: float) -> None:
        heard = said.ControllerHeartbeat(
            broker_addr=f"n{beat.replica}:1",
            broker_id=beat.replica,
            broker_name=SET,
            cluster_name=CLUSTER,
            epoch=beat.epoch,
            max_offset=beat.end,
            confirm_offset=beat.end,
            election_priority=beat.priority,
            heartbeat_timeout_mills=int(beat.timeout_s * 1000),
        )
        self._living.heartbeat(heard, beat.link, now_s)
        self._look()

    def close(self, link: int) -> None:
        self._living.closed(link)
        self._look()

    def expire(self, now_s: float) -> None:
        self._living.expire(now_s)
        self._look()

    def clean(self) -> None:
        asked = said.CleanBrokerData(broker_name=SET, is_clean_living_broker=True)
        self._decide(self._sets.clean(asked, self._alive))

    def register(self, replica: int) -> str:
        asked = said.RegisterToController(
            broker_address=f"n{replica}:1",
            broker_id=replica,
            broker_name=SET,
            cluster_name=CLUSTER,
        )
        return self._decide(self._sets.register(asked, self._alive))

    def elect(self, replica: int, *, wanted: bool) -> str:
        asked = said.ElectMaster(
            broker_id=replica, broker_name=SET, cluster_name=CLUSTER, designate_elect=wanted
        )
        return self._decide(self._sets.elect(asked, self._alive))

    def alter(self, members: tuple[int, ...]) -> str:
        found = self._sets.get(SET)
        assert found is not None
        assert found.master_id is not None
        asked = said.AlterSyncStateSet(
            broker_name=SET, master_broker_id=found.master_id, master_epoch=found.master_epoch
        )
        wanted = said.SyncStateSet(sync_state_set=members, sync_state_set_epoch=found.in_sync_epoch)
        return self._decide(self._sets.alter(asked, wanted, self._alive))

    def state(self) -> str:
        found = self._sets.get(SET)
        if found is None:
            return "unknown"
        master = "no master" if found.master_id is None else f"master {found.master_id}"
        return f"{master}, epoch {found.master_epoch}, in sync {shown(found.in_sync)}"

    def alive(self) -> tuple[int, ...]:
        return tuple(sorted(self._alive))

    @property
    def _alive(self) -> dict[int, Living]:
        return self._living.of(CLUSTER, SET)

    def _look(self) -> None:
        """What the Controller does whenever somebody was heard of, or is silent."""
        wanted = self._sets.wanting(SET, self._alive) if self._sets.get(SET) is not None else None
        if wanted is not None:
            self._decide(self._sets.elect(wanted, self._alive))

    def _decide(self, decision: Decision) -> str:
        if decision.event is not None:
            self._sets.apply(decision.event)
        return "" if decision.code == 0 else f"{decision.code.value}"


@attrs.define
class Heard:
    """What upstream notes of a replica: the connection is that of its first heartbeat."""

    link: int
    until_s: float
    timeout_s: float
    epoch: int
    end: int
    priority: int


@attrs.define
class UpstreamController:
    """By upstream's rules, on DLedger."""

    unclean: bool
    _replicas: set[int] = attrs.field(factory=set)
    _heard: dict[int, Heard] = attrs.field(factory=dict)
    _master: int | None = None
    _epoch: int = 0
    _in_sync: tuple[int, ...] = ()

    def apply_id(self, replica: int) -> str:
        self._replicas.add(replica)
        return ""

    def heartbeat(self, beat: Beat, now_s: float) -> None:
        until_s = now_s + beat.timeout_s
        found = self._heard.get(beat.replica)
        if found is None:
            self._heard[beat.replica] = Heard(
                beat.link, until_s, beat.timeout_s, beat.epoch, beat.end, beat.priority
            )
            return
        found.until_s, found.priority = until_s, beat.priority
        if (beat.epoch, beat.end) > (found.epoch, found.end):
            found.epoch, found.end = beat.epoch, beat.end

    def close(self, link: int) -> None:
        self._forget({key for key, each in self._heard.items() if each.link == link})

    def expire(self, now_s: float) -> None:
        self._forget({key for key, each in self._heard.items() if each.until_s < now_s})

    def clean(self) -> None:
        self._replicas, self._master, self._epoch, self._in_sync = set(), None, 0, ()

    def register(self, replica: int) -> str:
        return "" if replica in self._replicas else "2010"

    def _forget(self, dead: set[int]) -> None:
        self._heard = {key: each for key, each in self._heard.items() if key not in dead}
        if self._master in dead:
            for _ in range(TRIES):
                if not self.elect(-1, wanted=False):
                    return

    def elect(self, replica: int, *, wanted: bool) -> str:
        if not self._replicas:
            return "2010"
        preferred = replica if wanted else None
        chosen = replica if self._epoch == 0 and replica >= 0 else self._best(preferred)
        if chosen is None:
            if replica < 0:
                self._master, self._epoch = None, self._epoch + 1
            return "2004" if replica < 0 else "2012"
        if chosen == self._master:
            return "2011"
        self._master, self._epoch, self._in_sync = chosen, self._epoch + 1, (chosen,)
        return ""

    def _best(self, preferred: int | None) -> int | None:
        for candidates in (self._in_sync, tuple(sorted(self._replicas)) if self.unclean else ()):
            living = [each for each in candidates if each in self._heard]
            if not living:
                continue
            if self._master in living and preferred in (None, self._master):
                return self._master
            if preferred is not None:
                return preferred if preferred in living else None
            best = living[0]
            for each in living[1:]:
                if self._before(self._heard[each], self._heard[best]):
                    best = each
            return best
        return None

    @staticmethod
    def _before(one: Heard, other: Heard) -> bool:
        if one.epoch != other.epoch:
            return one.epoch > other.epoch
        ahead = (one.end - other.end) & ((1 << INT_BITS) - 1)  # as a Java int
        if ahead:
            return ahead < 1 << (INT_BITS - 1)
        return one.priority < other.priority

    def alter(self, members: tuple[int, ...]) -> str:
        if not set(members) <= self._heard.keys():
            return "2003"
        self._in_sync = members
        return ""

    def state(self) -> str:
        if not self._replicas:
            return "unknown"
        master = "no master" if self._master is None else f"master {self._master}"
        return f"{master}, epoch {self._epoch}, in sync {shown(self._in_sync)}"

    def alive(self) -> tuple[int, ...]:
        return tuple(sorted(self._heard))


@attrs.define
class Controllers:
    """The commands of a script about controllers, under one setting."""

    setting: str
    _it: OurController | UpstreamController = attrs.field(init=False)
    _now_s: float = 0.0

    def made(self, *replicas: str, unclean: bool = False) -> list[str]:
        """A controller that knows these replicas of the set."""
        self._it = (UpstreamController if self.setting == "upstream" else OurController)(unclean)
        for each in replicas:
            assert not self._it.apply_id(int(each))
        return [self._it.state()]

    def do_beat(
        self,
        replica: str,
        link: int = 0,
        epoch: int = 1,
        end: int = 0,
        priority: int = 100,
        timeout: float = 10.0,
    ) -> list[str]:
        """A heartbeat, on a connection that has the replica's number if it is not said."""
        beat = Beat(int(replica), link or int(replica), epoch, end, priority, timeout)
        self._it.heartbeat(beat, self._now_s)
        return [self._it.state()]

    def do_close(self, *links: str) -> list[str]:
        """A connection ends."""
        for link in links:
            self._it.close(int(link))
        return [self._it.state()]

    def do_wait(self, seconds: str) -> list[str]:
        """Time passes, then the controller looks who was silent for too long."""
        self._now_s += float(seconds)
        self._it.expire(self._now_s)
        return [self._it.state()]

    def do_clean(self) -> list[str]:
        """An operator has the whole set forgotten, its living replicas, too."""
        self._it.clean()
        return [self._it.state()]

    def do_register(self, replica: str) -> list[str]:
        """A replica with an id tells its address."""
        return self._answered(self._it.register(int(replica)))

    def do_elect(self, replica: str, wanted: bool = False) -> list[str]:
        """A replica asks for a master; or an operator, who wants that one."""
        return self._answered(self._it.elect(int(replica), wanted=wanted))

    def do_alter(self, members: object) -> list[str]:
        """The master asks for this set."""
        return self._answered(self._it.alter(ids(members)))

    def do_alive(self) -> list[str]:
        """Who lives, as the controller believes."""
        return [f"alive {shown(self._it.alive())}"]

    def _answered(self, refused: str) -> list[str]:
        return [*([f"refused: {refused}"] if refused else []), self._it.state()]

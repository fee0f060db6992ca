"""What is true of the brokers of a simulated world, and judges of the routes that clients get.

RouteNamesWhoLives: an address stands in a route as long as its broker says so, and no longer than
`lives_s` after it last did; where nothing but its process has ended, no longer than `GONE_S`.
LivingIsFound: who has lived in its role for `FOUND_S`, with a name server that ran and a link that
was whole all the while, is in the routes of its topics there.
OneIdForEach: no address has two ids, and no topic two entries of one broker name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from wire.broker.routes import TopicRouteData

FAULT_MAX_S: Final = 40.0
"""No cut or clogged link lasts longer."""
SLACK_S: Final = 5.0
TIMEOUT_S: Final = {"a": 120.0, "b": 60.0}
"""By broker name: what its registrations say. An idle connection ends after 120 s, too."""
GONE_S: Final = 2.0
FOUND_S: Final = 30.0 + 3.0 + SLACK_S
"""Brokers register every 30 s, and connect again within 3 s."""
WHOLE_S: Final = FAULT_MAX_S + FOUND_S
"""So long a link has to have been whole before something is expected of it."""


def lives_s(name: str) -> float:
    """The time-out, the pause between two looks, what a link may hold back."""
    return TIMEOUT_S[name] + 5.0 + FAULT_MAX_S + SLACK_S


@attrs.frozen
class Role:
    """What a broker says it is."""

    name: str
    broker_id: int
    address: str


@attrs.define
class Life:
    """One run of a broker's process.

    Attributes:
        role: its present one, since `role_s`.
        state: of its topics: in which promotion it is; the larger one holds an id.
        ended_s: when its process ended; None: it runs.
        is_silent: whether its end was a power loss, which nobody hears of.
    """

    host: str
    role: Role
    role_s: float
    state: int = 0
    ended_s: float | None = None
    is_silent: bool = False


@attrs.define
class Truth:
    """What a world knows, and its judges.

    Attributes:
        lives: all runs of all brokers so far.
        said: by name server and role, when somebody last sent a registration.
        broken_s: by broker's host and name server, when their link was last not whole.
        up_s: by name server, since when it runs; absent: it does not.
        objections: what the judges found, "JUDGE: text".
        counts: how often each judge could have objected.
    """

    now_s: Callable[[], float]
    lives: list[Life] = attrs.field(factory=list)
    said: dict[tuple[str, Role], float] = attrs.field(factory=dict)
    broken_s: dict[tuple[str, str], float] = attrs.field(factory=dict)
    up_s: dict[str, float] = attrs.field(factory=dict)
    objections: list[str] = attrs.field(factory=list)
    counts: dict[str, int] = attrs.field(factory=dict)

    def judge(self, server: str, topic: str, names: set[str], route: TopicRouteData | None) -> None:
        """A client has just got this route. Args: names: the broker names that have the topic."""
        found = _roles(route)
        self._judge_ids(server, found, route)
        for role in found:
            self._judge_life(server, role)
        for life in self.lives:
            if life.role.name in names and self._is_expected(server, life):
                self._count("LivingIsFound")
                if life.role not in found:
                    self._object("LivingIsFound", f"{life.role} is not in {topic} at {server}")

    def _judge_ids(self, server: str, found: list[Role], route: TopicRouteData | None) -> None:
        addresses = [role.address for role in found]
        queues = [] if route is None else [each.broker_name for each in route.queue_datas]
        self._count("OneIdForEach")
        if len(set(addresses)) < len(addresses) or len(set(queues)) < len(queues):
            self._object("OneIdForEach", f"{found} with queues of {queues} at {server}")

    def _judge_life(self, server: str, role: Role) -> None:
        now_s, said_s = self.now_s(), self.said.get((server, role))
        self._count("RouteNamesWhoLives")
        if said_s is None:
            self._object("RouteNamesWhoLives", f"{role} at {server}, which nobody ever said")
            return
        if now_s - said_s > lives_s(role.name):
            why = f"{role} at {server} {now_s - said_s:.0f} s after it last registered"
            self._object("RouteNamesWhoLives", why)
        lives = [life for life in self.lives if life.role.address == role.address]
        last = lives[-1]
        if last.ended_s is None or last.is_silent:
            return
        whole_s = now_s - self.broken_s.get((last.host, server), 0.0)
        if whole_s > WHOLE_S and now_s - last.ended_s > GONE_S:
            why = f"{role} at {server} {now_s - last.ended_s:.0f} s after its process ended"
            self._object("RouteNamesWhoLives", why)

    def _is_expected(self, server: str, life: Life) -> bool:
        now_s = self.now_s()
        if life.ended_s is not None or now_s - life.role_s < FOUND_S:
            return False
        if now_s - self.up_s.get(server, now_s) < FOUND_S:
            return False
        others = [
            each
            for each in self.lives
            if each is not life
            and (each.role.name, each.role.broker_id) == (life.role.name, life.role.broker_id)
            and (
                each.ended_s is None
                or each.is_silent
                or now_s - each.ended_s < lives_s(each.role.name)
            )
        ]
        if any(each.state >= life.state for each in others):
            return False
        return now_s - self.broken_s.get((life.host, server), -WHOLE_S) > WHOLE_S

    def _count(self, judge: str) -> None:
        self.counts[judge] = self.counts.get(judge, 0) + 1

    def _object(self, judge: str, text: str) -> None:
        self.objections.append(f"{judge}: {text}")


def _roles(route: TopicRouteData | None) -> list[Role]:
    if route is None:
        return []
    return [
        Role(each.broker_name, broker_id, address)
        for each in route.broker_datas
        for broker_id, address in each.broker_addrs.items()
    ]

"""What a broker answers to operators' `mqadmin clusterList`, `brokerStatus`, `haStatus` and
`getBrokerConfig`.

Upstream: apache/rocketmq, broker/.../processor/AdminBrokerProcessor.java (prepareRuntimeInfo,
getBrokerHaStatus, getBrokerConfig, updateBrokerConfig), remoting/.../body/HARuntimeInfo.java,
5.3.3; broker.md 6.2, classic-ha.md 5.4.

| Code | Request                 | Answer                                                       |
|------|-------------------------|--------------------------------------------------------------|
| 25   | UPDATE_BROKER_CONFIG    | the keys of `changed_settings` change, others are refused    |
| 26   | GET_BROKER_CONFIG       | `key=value` lines under upstream's names                     |
| 28   | GET_BROKER_RUNTIME_INFO | values by name                                               |
| 907  | GET_BROKER_HA_STATUS    | of a master its slaves, of a slave its connection            |

`getTransferredTps` is also sent in the spelling of 4.x, without which mqadmin 4.9.7 fails.

Differs: 25 changes some keys only, see `changed_settings`. Values about parts that this broker does
not have, such as queues of thread pools, are left out, or 0 where a tool needs them. The messages
that tools show as those of today and yesterday are those since the node's start, as upstream's
(`midnights`). A rate is about the time between two requests that are at least RATE_S apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from actors.broker.changed_settings import CHANGE_BYTES_MAX, ChangedSettings, NotChanged
from actors.broker.midnights import Midnights
from actors.config.brokerconf.properties import parse_properties
from actors.env import Env
from actors.errors import ConfigError
from actors.ha.connection_state import GetStatus, HaStatus
from actors.ha.core.states import HAConnectionState
from actors.metadata.view import BOOT_KEY, MetadataView
from actors.remoting.requests import Answer, Processor, Refused, Request
from actors.runtime import ActorRef, MailboxFull, ReplyTo
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.dialect import Body, encode_body
from wire.broker.java_json import encode
from wire.broker.routes import KVTable
from wire.broker.topics import DataVersion
from wire.remoting.header import VERSION
from wire.remoting.tolerant_json import always

RATE_S: Final = 1.0
"""The least seconds over which a rate is computed."""
VERSION_NAME: Final = "V5_3_3"
"""The name of `VERSION`, from which tools conclude what a broker understands."""
_DAY_S: Final = 86_400


class HAConnectionInfo(Body, frozen=True, kw_only=True):
    """A slave, as its master sees it, with upstream's names."""

    addr: str
    diff: int = always(0)
    in_sync: bool = always(False)
    slave_ack_offset: int = always(0)
    transfer_from_where: int = always(0)
    transferred_byte_in_second: int = always(0)


class HAClientRuntimeInfo(Body, frozen=True, kw_only=True):
    """A slave's connection to its master. Times are in ms since 1970, or 0 for never."""

    last_read_timestamp: int = always(0)
    last_write_timestamp: int = always(0)
    master_addr: str | None = None
    master_flush_offset: int = always(0)
    max_offset: int = always(0)
    transferred_byte_in_second: int = always(0)


class HARuntimeInfo(Body, frozen=True, kw_only=True):
    """The answer to GET_BROKER_HA_STATUS."""

    ha_client_runtime_info: HAClientRuntimeInfo
    ha_connection_info: tuple[HAConnectionInfo, ...] = always(())
    in_sync_slave_nums: int = always(0)
    master: bool = always(False)
    master_commit_log_max_offset: int = always(0)


@attrs.define
class _Rate:
    """A rate per second, from a count at two requests."""

    _count: int = 0
    _since_s: float | None = None
    _per_s: float = 0.0

    def of(self, count: int, now_s: float) -> float:
        if self._since_s is None:
            self._count, self._since_s = count, now_s
        elif (passed_s := now_s - self._since_s) >= RATE_S:
            self._per_s = max(0, count - self._count) / passed_s
            self._count, self._since_s = count, now_s
        return self._per_s


@attrs.define(kw_only=True)
class Introspection:
    """Answers about one member of a group.

    Attributes:
        settings: the settings of the group on this node, by upstream's names, without those that
            may be changed.
        changed: the settings that may be changed, with what operators have changed.
        has_changed: called after each change, with the settings that were changed.
        folder: the folder of the log.
        stored: returns how many messages were appended here since the node's start.
        midnights: how many of those there were at the last two midnights.
        processors: the processor of each request code.
    """

    env: Env
    settings: Mapping[str, str]
    changed: ChangedSettings
    has_changed: Callable[[Mapping[str, str]], None]
    folder: str
    stored: Callable[[], int]
    midnights: Midnights
    view: MetadataView
    state: ActorRef[GetStatus]
    processors: dict[int, Processor] = attrs.field(init=False)
    _rate: _Rate = attrs.field(init=False, factory=_Rate)

    def __attrs_post_init__(self) -> None:
        self.processors = {
            RequestCode.GET_BROKER_RUNTIME_INFO: partial(self._ask, self._runtime_info),
            RequestCode.GET_BROKER_HA_STATUS: partial(self._ask, self._ha_status),
            RequestCode.GET_BROKER_CONFIG: self._config,
            RequestCode.UPDATE_BROKER_CONFIG: self._update_config,
        }

    def _ask(self, make: Callable[[HaStatus | None], Answer], request: Request) -> None:
        """Answer a request from the status of connection_state.

        Args:
            make: makes the answer of the status, or of None if connection_state does not answer.
        """

        def done(outcome: HaStatus | Exception) -> None:
            try:
                answer = make(None if isinstance(outcome, Exception) else outcome)
            except OSError as error:  # the disk does not say how full it is
                request.fail(error)
            else:
                request.send(answer)

        reply_to: ReplyTo[HaStatus] = ReplyTo.local(done, asked=self.state)
        if not reply_to.answered and not self.state.offer(GetStatus(reply_to=reply_to)):
            reply_to.fail(MailboxFull("busy"))

    def _runtime_info(self, ha: HaStatus | None) -> Answer:
        now_ms, stored = self.env.wall_clock_ms(), self.stored()
        put = f"{self._rate.of(stored, trio.current_time()):.2f}"
        table = {
            BOOT_KEY: str(self.view.started_ms),
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_NAME,
            "runtime": _runtime(max(0, now_ms - self.view.started_ms)),
            "putTps": f"{put} {put} {put}",
            "msgPutTotalTodayNow": str(stored),
            "msgPutTotalTodayMorning": str(self.midnights.today),
            "msgPutTotalYesterdayMorning": str(self.midnights.yesterday),
            "commitLogDiskRatio": f"{self.env.disk.usage(self.folder):.4f}",
            **dict.fromkeys(("getTransferredTps", "getTransferedTps"), "0.0 0.0 0.0"),
            **dict.fromkeys(_ZERO, "0"),
        }
        if ha is not None:
            unsynced = ha.written_bytes - ha.synced_bytes
            table |= {
                "commitLogMinOffset": str(ha.min_bytes),
                "commitLogMaxOffset": str(ha.written_bytes),
                "remainHowManyDataToFlush": f"{unsynced} B",
            }
        return Answer(body=encode_body(KVTable(table=table)))

    def _ha_status(self, ha: HaStatus | None) -> Answer:
        if ha is None:
            return Answer(code=ResponseCode.SYSTEM_ERROR, remark="the log is being opened")
        found = HARuntimeInfo(
            ha_client_runtime_info=self._client(ha),
            ha_connection_info=tuple(
                HAConnectionInfo(
                    addr=slave.address,
                    diff=slave.lag_bytes or 0,
                    in_sync=slave.in_sync,
                    slave_ack_offset=slave.ack_bytes or 0,
                    transfer_from_where=slave.next_bytes or 0,
                    transferred_byte_in_second=slave.bytes_per_s,
                )
                for slave in ha.slaves
                if slave.state is HAConnectionState.TRANSFER
            ),
            in_sync_slave_nums=ha.in_sync_count,
            master=ha.role == "master",
            master_commit_log_max_offset=ha.written_bytes if ha.role == "master" else 0,
        )
        return Answer(body=encode_body(found))

    def _client(self, ha: HaStatus) -> HAClientRuntimeInfo:
        client = ha.client
        if client is None:
            return HAClientRuntimeInfo()
        now_ms = self.env.wall_clock_ms()

        def at_ms(then_s: float | None) -> int:
            return 0 if then_s is None else now_ms - int(1000 * (ha.asked_s - then_s))

        return HAClientRuntimeInfo(
            last_read_timestamp=at_ms(client.last_read_s),
            last_write_timestamp=at_ms(client.last_write_s),
            master_addr=client.master,
            max_offset=ha.written_bytes,
            transferred_byte_in_second=client.bytes_per_s,
        )

    def _config(self, request: Request) -> Answer:
        settings = {**self.settings, **self.changed.values}
        lines = "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))
        version = encode(DataVersion(state_version=0)).decode()
        return Answer(ext_fields={"version": version}, body=lines.encode())

    def _update_config(self, request: Request) -> Answer:
        """Change settings.

        Raises:
            Refused: nothing was changed.
        """
        if len(request.body) > CHANGE_BYTES_MAX:
            expected = f"expected at most {CHANGE_BYTES_MAX} bytes, found {len(request.body)}"
            raise Refused(ResponseCode.INVALID_PARAMETER, expected)
        try:
            entries = parse_properties(request.body, "the request")
            wanted = {entry.key: entry.value for entry in entries}
            self.changed.change(wanted)
        except (NotChanged, ConfigError) as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        except OSError as error:
            text = f"nothing is changed: {error.strerror or error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text) from None
        self.has_changed(wanted)
        return Answer()


def _runtime(passed_ms: int) -> str:
    days, rest = divmod(passed_ms // 1000, _DAY_S)
    hours, rest = divmod(rest, 3600)
    return f"[ {days} days, {hours} hours, {rest // 60} minutes, {rest % 60} seconds ]"


_ZERO: Final = (
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "pageCacheLockTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize",
)
"""Values that tools read as numbers, and that are always 0 here: no client sends or pulls at this
port.
"""

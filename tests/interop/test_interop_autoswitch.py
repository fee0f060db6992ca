"""A learner of ours behind Java masters in controller mode: handshakes, epochs, and a switch."""

from __future__ import annotations

import socket
from pathlib import Path

import attrs
import pytest
from interop_controllers import SET, SIZES, Controllers, wait_state
from interop_name_server import Admin, OurNameServer, broker_of
from interop_processes import PEER_S, TEST_S, Processes, wait_for
from interop_rocketmq import Broker, Driver
from interop_versions import NEWEST, Peer, beside

from actors.env.local_disk import LocalDisk
from actors.epochs import History
from actors.ha.client_messages import AwaitedAnswer
from actors.ha.core.autoswitch_dialect import AutoSwitchDialect, EpochHandshake
from actors.ha.core.epoch_trail import Agreement, EpochTrail, OwnLog
from actors.ha.core.extent import LogExtent
from actors.ha.core.slave_progress import SlaveProgress
from actors.storage.commitlog.epoch_store import EpochStore
from actors.storage.layout import StoreLayout
from wire.files.commit_log import begins_record
from wire.files.epoch_file import decode_epoch_file

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]

BROKER_ID = 77


@attrs.define
class Learner:
    """A log in memory and its epoch file, by the product's decisions."""

    folder: Path
    log: bytearray = attrs.field(factory=bytearray)
    store: EpochStore = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir()
        self.opened()

    def opened(self) -> None:
        self.store = EpochStore.open(
            LocalDisk(), StoreLayout(str(self.folder)), 0, len(self.log), self._begins
        )

    def _begins(self, offset: int) -> bool:
        return begins_record(bytes(self.log[offset : offset + 36]), offset)

    def copy(self, port: int, upto: int) -> Agreement:
        """Follow the master at this port until the log reaches so far."""
        dialect = AutoSwitchDialect(
            handshake=EpochHandshake(
                broker_id=BROKER_ID,
                who=lambda request: "",
                history=lambda: self.store.history,
                async_learner=True,
            ),
            confirm=lambda: -1,
        )
        with socket.create_connection(("127.0.0.1", port), timeout=PEER_S) as stream:
            stream.sendall(dialect.handshake.request)
            awaited = AwaitedAnswer(PEER_S, dialect.frame_decoder())
            while (answer := awaited.received(stream.recv(4096))) is None:
                pass
            end = len(self.log)
            found = OwnLog(
                history=self.store.history, min_bytes=0, end_bytes=end, begins=self._begins
            ).agree(answer)
            assert found.end_bytes is not None, found.text
            del self.log[found.end_bytes :]
            self._frames(stream, dialect, found.theirs, upto)
        return found

    def _frames(
        self, stream: socket.socket, dialect: AutoSwitchDialect, theirs: History, upto: int
    ) -> None:
        end = len(self.log)
        progress = SlaveProgress(
            dialect=dialect,
            synced=False,
            segment_bytes=1 << 30,
            heartbeat_s=5.0,
            housekeeping_s=20.0,
            extent=LogExtent(0, end, end),
            last_read_s=0.0,
            last_write_s=0.0,
            trail=EpochTrail(theirs),
        )
        effects = progress.begin()
        while len(self.log) < upto or effects.report_bytes is not None:
            if effects.report_bytes is not None:
                stream.sendall(dialect.encode_report(effects.report_bytes))
                progress.reported(effects.report_bytes, 0.0)
            came = progress.received(stream.recv(1 << 16), 0.0)
            assert came.lost is None, came.detail
            if came.follow is not None:
                self.store.follow(*came.follow)
            self.log += b"".join(each.data or b"" for each in came.append)
            effects = progress.grew(LogExtent(0, len(self.log), len(self.log)))


def same_as(learner: Learner, broker: Broker) -> None:
    """The bytes and the epochs are the broker's."""
    path = sorted(broker.commitlog.iterdir())[0]
    with path.open("rb") as file:
        assert file.read(len(learner.log)) == learner.log
    theirs = decode_epoch_file((broker.store / "epochFileCheckpoint").read_bytes())
    mine = decode_epoch_file((learner.folder / "epochFileCheckpoint").read_bytes())
    assert mine == theirs


@pytest.mark.checklist(1, 2, 3, 7, 18, of="autoswitch")
@beside("rocketmq", NEWEST.version)
def test_a_learner_of_ours_follows_java_masters_through_a_switch(
    peer: Peer, tmp_path: Path, processes: Processes
) -> None:
    controllers = Controllers.start(tmp_path / "c", processes)
    name_server = OurNameServer.begin(processes, tmp_path / "ns")

    def broker(name: str) -> Broker:
        return broker_of(
            peer,
            tmp_path / name,
            name_server.port,
            processes,
            SET,
            enableControllerMode="true",
            controllerAddr=";".join(controllers.addresses.values()),
            allAckInSyncStateSet="true",
            registerNameServerPeriod=10_000,
        )

    admin = Admin.start(peer, processes, tmp_path / "admin", name_server)
    controllers.leader(admin)
    a, b = broker("a"), broker("b")
    a.start()
    wait_state(admin, controllers, 1, (1,))
    b.start()
    wait_state(admin, controllers, 1, (1, 2))
    driver = Driver.start(processes, peer.jars(), tmp_path / "client", name_server.port)
    driver.run("send", "followed", 0, SIZES)
    first = a.end_bytes()
    learner, late = Learner(tmp_path / "learner"), Learner(tmp_path / "late")
    learner.copy(a.ha_port, first)
    same_as(learner, a)

    wait_for(lambda: b.end_bytes() == first, "b has all", timeout_s=PEER_S)
    a.kill()
    wait_state(admin, controllers, 2, (2,))
    driver.run("send", "followed", len(SIZES), SIZES)
    second = b.end_bytes()
    assert second > first
    learner.opened()
    assert learner.copy(b.ha_port, second).end_bytes == first
    same_as(learner, b)
    late.copy(b.ha_port, second)  # both epochs: Java names the second one in the first frames
    same_as(late, b)
    assert len(late.store.history) == 2
    state = wait_state(admin, controllers, 2, (2,))
    assert BROKER_ID not in state.in_sync

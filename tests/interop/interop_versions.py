"""Which versions of the real peers the tests run beside, how each is fetched, and what it needs.

A test names a family and its versions (`beside`). PEER_VERSION takes others: `5.4.0` is a RocketMQ,
`dledger-0.3.2` a DLedger by itself; commas between several. Then only tests of their families run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest
from interop_processes import PeerFailed

JAVA = Path(__file__).with_name("java")
DOWNLOAD_TIMEOUT_S = 600.0
DLEDGER = "dledger-"
NAME: Final = re.compile(r"(dledger-)?\d+(\.\d+)+")
"""What PEER_VERSION takes."""
UNMAPPING = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
"""For unmapping files, which Java 17 forbids otherwise. Without them a DLedger member stands still
where it has to cut its log, and a broker from before 5.2 cannot stop in order."""
UNMAPS: Final = (5, 2)
"""RocketMQ unmaps by itself from that version on."""
SHIPPED: Final = {"0.3.1.2": "5.3.3", "0.3.2": "5.5.0"}
"""DLedger as that RocketMQ has it: with its own libraries it cannot listen at one address."""
BINDS: Final = {"0.3.1.2", "0.3.2", "0.3.3.4", "0.4.0"}
"""Members of these listen at one address."""


def numbers(version: str) -> tuple[int, ...]:
    """To compare versions by."""
    return tuple(int(part) for part in version.split("."))


@attrs.frozen
class Peer:
    """One version of a real thing.

    Attributes:
        name: as in PEER_VERSION.
    """

    name: str

    @property
    def is_dledger(self) -> bool:
        """By itself; RocketMQ brings one too."""
        return self.name.startswith(DLEDGER)

    @property
    def version(self) -> str:
        return self.name.removeprefix(DLEDGER)

    @property
    def is_foreign(self) -> bool:
        """A DLedger of another dialect than ours."""
        return self.is_dledger and numbers(self.version) >= (0, 4)

    @property
    def family(self) -> str:
        """Which tests are for it: "rocketmq", "older brokers", "dledger" or "other dialects"."""
        if self.is_dledger:
            return "other dialects" if self.is_foreign else "dledger"
        return "rocketmq" if numbers(self.version) >= (5,) else "older brokers"

    @property
    def java_options(self) -> tuple[str, ...]:
        """What its virtual machine needs besides what all get."""
        unmaps = not self.is_dledger and numbers(self.version) >= UNMAPS
        return () if unmaps else UNMAPPING

    @property
    def binds(self) -> bool:
        """Of a DLedger: a member listens at one address, not at all of them."""
        return self.version in BINDS

    @property
    def main(self) -> str:
        """The class of a RocketMQ's broker."""
        vendor = "com.alibaba" if numbers(self.version) < (4,) else "org.apache"
        return f"{vendor}.rocketmq.broker.BrokerStartup"

    # ---- jars ----

    @property
    def source(self) -> Peer:
        """Whose jars it runs on."""
        shipped = SHIPPED.get(self.version) if self.is_dledger else None
        return self if shipped is None else Peer(shipped)

    @property
    def _pom(self) -> Path:
        """The list of what is downloaded."""
        if self.is_dledger:
            return JAVA / "dledger" / "pom.xml"
        return (JAVA if numbers(self.version) >= (4,) else JAVA / "rocketmq-3") / "pom.xml"

    @property
    def folder(self) -> Path:
        """Where its jars are kept, between runs and outside the repository."""
        if self.source != self:
            return self.source.folder
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "triolog" / (self.name if self.is_dledger else f"rocketmq-{self.version}")

    @property
    def is_fetched(self) -> bool:
        return self.folder.is_dir()  # it gets its name only when all jars are there

    def jars(self) -> Path:
        """The folder with its jars, by Maven if it is not there yet."""
        folder = self.folder
        if self.is_fetched:
            return folder
        source = self.source
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as fetching:
            jars = Path(fetching) / "jars"
            command = ["mvn", "-q", "-B", "-f", str(source._pom)]
            command += [f"-Dpeer.version={source.version}"]
            command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S
            )
            if done.returncode != 0:
                raise PeerFailed(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
            with contextlib.suppress(OSError):  # another session was faster
                jars.rename(folder)
        assert self.is_fetched
        return folder


NEWEST = Peer("5.5.0")
"""Whose name server and client all brokers have."""
BENCHED = Peer("5.3.3")
"""What the benchmarks measure beside."""
MATRIX: Final = {
    "rocketmq": (NEWEST, BENCHED),
    "older brokers": (Peer("4.9.7"), Peer("3.2.6")),
    "dledger": (Peer("dledger-0.3.3.4"), Peer("dledger-0.3.1.2")),
    "other dialects": (Peer("dledger-0.4.0"),),
}
"""What runs where PEER_VERSION names nothing, by family: the newest first."""
OLDEST_DLEDGER = Peer("dledger-0.2.7")
"""A member of one test beside one of each version of its family."""


def chosen() -> tuple[Peer, ...]:
    """Those of PEER_VERSION; none if it is not set."""
    words = [word.strip() for word in os.environ.get("PEER_VERSION", "").split(",")]
    for word in filter(None, words):
        if not NAME.fullmatch(word):
            raise pytest.UsageError(f"PEER_VERSION: {word!r} is neither 5.4.0 nor dledger-0.3.2")
    return tuple(Peer(word) for word in words if word)


def beside(family: str, *versions: str, **divided: Sequence[object]) -> pytest.MarkDecorator:
    """Marks a test with a fixture `peer`: it runs once for each of these, which are of the matrix,
    or, without any, for all of its family.

    Args:
        divided: another argument and its values, which the versions have in turn, so that each
            version and each value is tried once.
    """
    peers = [peer for peer in MATRIX[family] if not versions or peer.version in versions]
    assert len(peers) >= len(versions), f"{versions} are to be in the matrix"
    return pytest.mark.beside(family, *peers, **divided)


def peers_of(mark: pytest.Mark) -> list[Peer]:
    """For which a test so marked runs; none: not at all."""
    family, *peers = mark.args
    others = chosen()
    return [peer for peer in others if peer.family == family] if others else peers


def parametrize(metafunc: pytest.Metafunc, mark: pytest.Mark) -> None:
    """As `beside` says; tests of one version run after those of another, for they share much."""
    peers = peers_of(mark)
    if not mark.kwargs:
        ids = [peer.name for peer in peers]
        metafunc.parametrize("peer", peers, indirect=True, ids=ids, scope="session")
        return
    ((name, values),) = mark.kwargs.items()
    count = max(len(peers), len(values)) if peers else 0
    rows = [(peers[i % len(peers)], values[i % len(values)]) for i in range(count)]
    ids = [f"{peer.name}-{name}={value}" for peer, value in rows]
    metafunc.parametrize(("peer", name), rows, indirect=["peer"], ids=ids, scope="session")


def what_is_missing() -> str | None:
    """Why these tests cannot run on this machine, in one line; None if they can."""
    if shutil.which("java") is None:
        return "java (17 or newer) is not on the PATH"
    needed = [NEWEST, OLDEST_DLEDGER, *(peer for peers in MATRIX.values() for peer in peers)]
    if not all(peer.is_fetched for peer in (*needed, *chosen())) and shutil.which("mvn") is None:
        return "mvn is not on the PATH, and not all jars of the peers have been fetched yet"
    return None

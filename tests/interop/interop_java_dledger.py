"""DLedger by itself, in one of its versions: Member.java, Client.java, and the jars they need."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs
from interop_processes import PeerFailed
from interop_rocketmq import java_command
from interop_versions import JAVA, Peer

COMPILE_TIMEOUT_S = 300.0
JAVA_OPTIONS = (
    "-Xms128m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dtls.server.mode=disabled",
)


@attrs.frozen
class JavaDLedger:
    """One version of the real thing.

    Attributes:
        classes: Member.java and Client.java, compiled.
    """

    peer: Peer
    jars: Path
    classes: Path

    @classmethod
    def make(cls, peer: Peer, folder: Path) -> JavaDLedger:
        """Args: folder: for the classes."""
        jars = peer.jars()
        return cls(peer, jars, compiled(jars, folder))

    @property
    def binds(self) -> bool:
        """A member listens at one address; otherwise at all of them, so that its port has to be
        another one than that of the rest: a proxy is in between.
        """
        return self.peer.binds

    def command(self, home: Path, *words: str) -> list[str | Path]:
        """The command that runs a main class."""
        options = (*JAVA_OPTIONS, *self.peer.java_options)
        return [*java_command(self.jars, home, options, self.classes), *words]


def compiled(jars: Path, folder: Path) -> Path:
    """Member.java and Client.java as classes: quicker to start than from their source."""
    command: list[str | Path] = [
        "javac",
        "-nowarn",
        "-d",
        folder,
        "-cp",
        f"{jars}/*",
        JAVA / "Member.java",
        JAVA / "Client.java",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    if done.returncode != 0:
        raise PeerFailed(f"{command}\n{done.stdout}{done.stderr}")
    return folder

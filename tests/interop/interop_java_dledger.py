"""DLedger by itself, in one of its versions: Member.java, Client.java, and the jars they need."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs
from interop_processes import PeerFailed
from interop_rocketmq import JAVA, java_command

COMPILE_TIMEOUT_S = 300.0
JAVA_OPTIONS = (
    "-Xms128m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Dtls.server.mode=disabled",
)
"""The packages are opened for unmapping files, which Java 17 forbids otherwise."""


@attrs.frozen
class JavaDLedger:
    """One version of the real thing.

    Attributes:
        classes: Member.java and Client.java, compiled against 0.3.1.2; Member runs on 0.2.7 too.
        binds: a member listens at one address; otherwise at all of them, so that its port has to be
            another one than that of the rest: a proxy is in between.
    """

    jars: Path
    classes: Path
    binds: bool = True

    def command(self, home: Path, *words: str) -> list[str | Path]:
        """The command that runs a main class."""
        return [*java_command(self.jars, home, JAVA_OPTIONS, self.classes), *words]


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

"""Lets only peers that prove to have the cluster's secret do more than read at `api_port`.

The secret is the file `cluster.secret` in the data directory, readable for the user who runs the
nodes. The first start makes it if all nodes are on one machine; to other machines the operator
copies it. It is read anew for each connection, so it can be put there, or replaced, while nodes
run.

A node without it takes only reads at its port. A node with it takes every request of a peer that
proves to have it, and believes another member only if that one proves it, too: otherwise a program
at a member's address could answer in its name.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Iterable
from typing import Final

import attrs
import msgspec

from actors.config import ClusterConfig
from actors.env.protocols import Network, SecretStore
from actors.errors import NO_ROOM_CODES, ConfigError, NoRoomToStart, TriologError
from wire.api import frames
from wire.api.proof import CHALLENGE_BYTES, Handshake

SECRET_NAME: Final = "cluster.secret"

LOCAL_HOST: Final = "localhost"
"""The Host header of a request to a socket file, whose path would be taken for a name; no part of a
name may have more than 63 characters. Versions before the challenge send it to every address.
"""
HEADER_BYTES_SHOWN: Final = 100
"""How many bytes of a refused header are shown, in the answer and in the event."""
_HOST_HEADER: Final = re.compile(r"\[([^\]]*)\](?::\d*)?|([^:]*)(?::\d*)?")

_LOGGER: Final = logging.getLogger("triolog.api")


class Unproven(TriologError):
    """The peer has not proved that it has the cluster's secret."""


def secret_path(config: ClusterConfig) -> str:
    """Return the path of the cluster's secret on each machine."""
    return os.path.join(config.data_dir, SECRET_NAME)


@attrs.define
class _LastWarning:
    """The last warning about a file that may not be used; "" if it may be used."""

    text: str = ""


@attrs.frozen
class Credentials:
    """A cluster's secret, if this process has it.

    Attributes:
        cluster: the cluster's name.
        path: the path of the secret's file.
        secret_store: reads it, and gives fresh random bytes.
    """

    cluster: str
    path: str
    secret_store: SecretStore
    _last: _LastWarning = attrs.field(factory=_LastWarning, init=False, eq=False, repr=False)

    @classmethod
    def of(cls, config: ClusterConfig, secret_store: SecretStore) -> Credentials:
        return cls(config.name, secret_path(config), secret_store)

    def secret(self) -> bytes | None:
        """Return the secret; None if there is none that may be used.

        What is wrong with it is logged once until it changes, because a program at a member's
        address may connect as often as it likes.
        """
        try:
            secret = self.secret_store.read(self.path)
        except ConfigError as error:
            secret, text = None, str(error)
            if text != self._last.text:
                _LOGGER.warning("%s; only reads pass at api_port meanwhile", text)
        else:
            text = ""
        self._last.text = text
        return secret

    def gate(self, node: str, hosts: frozenset[str]) -> ConnectionGate:
        """Return the gate of one connection to `node`, which the members know by `hosts`."""
        challenge = self.secret_store.fresh(CHALLENGE_BYTES)
        return ConnectionGate(credentials=self, node=node, hosts=hosts, challenge=challenge)


@attrs.frozen
class ExpectedNode:
    """The node that is expected at a port.

    Attributes:
        node: the name of the node.
        credentials: the credentials of its cluster.
    """

    node: str
    credentials: Credentials


def greet(hello: frames.Hello, expected: ExpectedNode | None, challenge: bytes) -> Greeting:
    """Make a hello, with a proof if this side has the secret.

    Args:
        expected: the node that has to answer; None: any node, which then proves nothing either.
        challenge: the bytes that the node sent; empty if it is of an older version.
    """
    if expected is None:
        why = "nothing proves who answers at a port: name the cluster file"
        return Greeting(hello, False, why)
    known = expected.credentials
    secret = known.secret()
    if secret is None:
        why = f"there is no secret at {known.path} that this process may read"
        return Greeting(hello, False, why)
    if not challenge:
        return Greeting(hello, True, "the node is of a version that cannot prove itself")
    nonce = known.secret_store.fresh(CHALLENGE_BYTES)
    shake = Handshake(
        cluster=known.cluster,
        node=expected.node,
        name=hello.name,
        challenge=challenge,
        nonce=nonce,
    )
    proof = shake.proof(secret, "client")
    proven = msgspec.structs.replace(hello, nonce=nonce, proof=proof)
    return Greeting(proven, True, "", shake.proof(secret, "node"))


@attrs.frozen
class Greeting:
    """A client's half of the proof.

    Attributes:
        hello: the hello to be sent.
        has_secret: whether this side has the secret.
    """

    hello: frames.Hello
    has_secret: bool
    _why: str
    _expected: bytes = b""

    def doubt(self, welcome: frames.Welcome) -> str:
        """Describe, for people, why the node that answered is trusted only with reads.

        Returns: "" if it has proved to have the secret.
        """
        if self._why:
            return self._why
        if not hmac.compare_digest(self._expected, welcome.proof):
            return f"expected the same {SECRET_NAME} on all machines, found another or none there"
        return ""

    def check(self, welcome: frames.Welcome) -> None:
        """Check the node's proof, if this process has the secret. Raises: Unproven."""
        doubt = self.doubt(welcome)
        if doubt and self.has_secret:
            raise Unproven(
                f"{welcome.node} has not proved that it is of cluster {welcome.cluster}: {doubt}"
            )


@attrs.frozen(kw_only=True)
class Admission:
    """How far a connection is trusted.

    One over the socket file is fully trusted, because the file's mode decides who may connect.

    Attributes:
        reads_only: whether it may only read, because it has proved nothing.
        no_member: whether it is no member, because a member would have proved itself.
        proof: this node's own proof, for a peer that has proved itself; else empty.
    """

    reads_only: bool = False
    no_member: bool = False
    proof: bytes = b""


WHOLLY_TRUSTED: Final = Admission()
READS_ONLY: Final = (
    "api_port takes only reads from whoever has not proved to have the cluster's secret: name the"
    " cluster file, where DATA_DIR/cluster.secret is the same as the node's, or use its Unix socket"
)


@attrs.frozen(kw_only=True)
class ConnectionGate:
    """Checks the handshake and the hello of one connection at a node's port.

    Web browsers let any page connect anywhere, and name the page in Origin, which no other program
    sends. Host has the name by which the client found this node, so a foreign name that resolves to
    this address is refused.

    Attributes:
        credentials: the cluster's credentials.
        node: this node.
        hosts: the addresses by which a request may name this node: those of the members.
        challenge: fresh random bytes, for this connection alone.
    """

    credentials: Credentials
    node: str
    hosts: frozenset[str]
    challenge: bytes

    def objection(self, host: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Describe, for people, why an opening handshake is refused; "" if it is not."""
        for name, value in headers:
            if name.lower() == b"origin":
                return f"requests of web pages are refused, found Origin {_shown(value)}"
        found = _HOST_HEADER.fullmatch(host)
        named = host if found is None else found[1] or found[2]
        if named != LOCAL_HOST and named not in self.hosts:
            return f"expected a member's address as Host, found {_shown(host.encode())}"
        return ""

    def admit(self, hello: frames.Hello) -> Admission:
        """Return how far a connection with this hello is trusted.

        A proof by another secret counts as no proof, and shows that the peer is no member.
        """
        secret = self.credentials.secret()
        if secret is None:
            return Admission(reads_only=True)
        shake = Handshake(
            cluster=self.credentials.cluster,
            node=self.node,
            name=hello.name,
            challenge=self.challenge,
            nonce=hello.nonce,
        )
        if not shake.proves(secret, "client", hello.proof):
            return Admission(reads_only=True, no_member=True)
        return Admission(proof=shake.proof(secret, "node"))


def _shown(header: bytes) -> str:
    return repr(header[:HEADER_BYTES_SHOWN].decode("latin-1"))


@attrs.frozen
class MemberNetwork:
    """How a node reaches the other members' APIs.

    Attributes:
        network: this machine's network.
        credentials: the secret for their ports.
    """

    network: Network
    credentials: Credentials


def prepare(config: ClusterConfig, secret_store: SecretStore, *, all_here: bool = False) -> None:
    """Make the cluster's secret before nodes start, if all of them are on this machine.

    If they are not, and there is no secret, log what their port does without one.

    Args:
        all_here: whether all nodes are on this machine, whatever the cluster file says.

    Raises: ConfigError: the secret's file may not be used, or cannot be made. NoRoomToStart: the
        disk is full.
    """
    path = secret_path(config)
    if config.api_port is None or secret_store.read(path) is not None:
        return
    if all_here or config.on_one_machine:
        try:
            secret_store.make(path)
        except OSError as error:
            kind = NoRoomToStart if error.errno in NO_ROOM_CODES else ConfigError
            raise kind(f"{path}: cannot make the secret: {error.strerror}") from error
    if secret_store.read(path) is None:
        _LOGGER.warning("%s", without_secret(config))


def without_secret(config: ClusterConfig) -> str:
    """Describe, for people, what a node's port does without a secret, and what to do about it."""
    return (
        f"no secret at {secret_path(config)} that this process may read: api_port takes only reads,"
        " so no promotion reaches this node: put the cluster's there (OPERATING.md, Setting up)"
    )


def secret_state(config: ClusterConfig, secret_store: SecretStore) -> tuple[str, ...]:
    """Return what `check` prints about the secret on this machine: one line; () for nothing."""
    if config.api_port is None:
        return ()
    try:
        if secret_store.read(secret_path(config)) is not None:
            return ()
    except ConfigError as error:
        return (str(error),)
    if config.on_one_machine:
        return (f"no secret at {secret_path(config)} yet: the first start makes it",)
    return (without_secret(config),)

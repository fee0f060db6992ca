"""The secret of the cluster that `api_kit` serves, for those who prove that they have it."""

from __future__ import annotations

import random

from actors.api.credentials import Credentials, ExpectedNode
from actors.sim.world import SimSecretStore

SECRET_PATH = "/data/cluster.secret"
SECRET = b"the secret of the cluster named demo"


def credentials(secret: bytes | None = SECRET, seed: int = 5) -> Credentials:
    """The cluster's, as who has this secret, or none, knows them."""
    files = {} if secret is None else {SECRET_PATH: secret}
    return Credentials("demo", SECRET_PATH, SimSecretStore(random.Random(seed), files))


def identity(secret: bytes | None = SECRET, node: str = "n0") -> ExpectedNode:
    """Who a client expects at a port, and what it can prove there."""
    return ExpectedNode(node, credentials(secret, seed=6))


N0 = identity()

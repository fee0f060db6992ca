"""What nobody else may know, simulated: from the seed, and in files that no fault touches."""

from __future__ import annotations

import random

import attrs


@attrs.define
class SimSecretStore:
    """One process's; `SecretStore` of the protocols.

    Attributes:
        rng: a stream of chance of its own, so that no other history depends on it.
        files: the machine's, by path; an operator puts the cluster's secret there.
    """

    rng: random.Random
    files: dict[str, bytes]

    def fresh(self, size: int) -> bytes:
        return self.rng.randbytes(size)

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def make(self, path: str) -> None:
        self.files.setdefault(path, self.fresh(32).hex().encode())

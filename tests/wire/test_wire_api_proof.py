"""Proofs of a secret: who has it can make them, and none is of use anywhere else."""

from __future__ import annotations

import attrs
import pytest

from wire.api.proof import CHALLENGE_BYTES, CHALLENGE_HEADER, PROOF_BYTES, Handshake, challenge_of

SECRET = b"s" * 32
SHAKE = Handshake(cluster="demo", node="n0", name="member n1", challenge=b"c" * 32, nonce=b"n" * 32)


def test_who_has_the_secret_proves_it() -> None:
    for role in ("client", "node"):
        proof = SHAKE.proof(SECRET, role)
        assert len(proof) == PROOF_BYTES
        assert SHAKE.proves(SECRET, role, proof)


def test_a_proof_is_that_of_the_documented_bytes() -> None:
    """Made with `openssl dgst -sha256 -hmac` of the fields, each behind its length."""
    assert SHAKE.proof(SECRET, "client").hex() == (
        "727485d887d64b5cf7000031639e6d734b02f9dde208654c46728d725b25a103"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"cluster": "other"},
        {"node": "n2"},
        {"name": "member n2"},
        {"challenge": b"d" * 32},
        {"nonce": b"o" * 32},
        {"node": "n0member", "name": " n1"},  # the same letters, cut elsewhere
    ],
    ids=",".join,
)
def test_a_proof_is_of_no_use_in_another_handshake(other: dict[str, object]) -> None:
    assert not attrs.evolve(SHAKE, **other).proves(SECRET, "client", SHAKE.proof(SECRET, "client"))


def test_a_proof_cannot_be_sent_back() -> None:
    assert not SHAKE.proves(SECRET, "client", SHAKE.proof(SECRET, "node"))


@pytest.mark.parametrize("proof", [b"", b"x", b"x" * PROOF_BYTES, b"x" * (PROOF_BYTES + 1)])
def test_what_is_no_proof(proof: bytes) -> None:
    assert not SHAKE.proves(SECRET, "client", proof)
    assert not SHAKE.proves(b"t" * 32, "client", SHAKE.proof(SECRET, "client"))


@pytest.mark.parametrize("short", [{"challenge": b""}, {"nonce": b""}, {"nonce": b"n" * 31}])
def test_without_fresh_bytes_of_both_nothing_is_proved(short: dict[str, bytes]) -> None:
    shake = attrs.evolve(SHAKE, **short)
    assert not shake.proves(SECRET, "client", shake.proof(SECRET, "client"))


def test_the_challenge_in_a_handshake() -> None:
    fresh = bytes(range(CHALLENGE_BYTES))
    value = fresh.hex().encode()
    assert challenge_of([(b"upgrade", b"x"), (CHALLENGE_HEADER, value)]) == fresh
    assert challenge_of([(b"Triolog-Challenge", value)]) == fresh
    for bad in (b"", b"zz", value[2:], value + b"00", "\u0663".encode()):
        assert challenge_of([(CHALLENGE_HEADER, bad)]) == b""
    assert challenge_of([]) == b""

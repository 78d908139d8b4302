"""Recordings in object stores: writes them there, and fetches them to be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from retrace.errors import UnreadableError
from retrace.model.row import Row
from retrace.regex import regex
from retrace.store.files import reason
from retrace.store.segments import name_of

_ADDRESS = regex(r"([A-Za-z][A-Za-z0-9+.-]+):[/\\]+(.+)", re.DOTALL)
"""An address. A `Path` turns its two slashes into one; a drive letter is no scheme."""
_NAME = regex(r"[\w][\w.@+-]{0,200}")
_PART = regex(r"(.*\.(?:jsonl|programs))(?:\.(\d{1,15})-(\d{1,15}))?", re.DOTALL)
_MEMBER = regex(r"\.attempt-(\d{1,9})\..*", re.DOTALL)
SUFFIXES = (".jsonl", ".programs")
"""The suffixes of a recording's files."""
_MAX_FILES = 10_000
_MAX_BYTES = 1 << 36
_CHUNK = 1 << 20
_TOO_MUCH = "it holds more than can be copied; name one recording in it"


def is_address(path: Path | str) -> bool:
    """Whether a path is the address of an object store and does not exist on disk."""
    return _ADDRESS.fullmatch(str(path)) is not None and not Path(path).exists()


def address_of(path: Path) -> str | None:
    """The address in an object store that a path represents; None for a path on disk."""
    found = _ADDRESS.fullmatch(str(path)) if is_address(path) else None
    return None if found is None else f"{found[1]}://{found[2]}"


def local(path: Path) -> Path:
    """Where the recording at a path can be read: the path, or a copy that is deleted at exit.

    Raises:
        UnreadableError: the path is an address from which nothing could be fetched.
    """
    address = address_of(path)
    return path if address is None else _fetched(address)


_origins: dict[Path, str] = {}
"""The address that each folder was copied from."""


def origin_of(file: Path) -> str | None:
    """The address of a file that was copied from an object store; None for other files."""
    for folder in file.parents:
        if (address := _origins.get(folder)) is not None:
            return f"{address}/{file.relative_to(folder).as_posix()}"
    return None


@contextmanager
def local_copy(file: Path, origin: str | None) -> Generator[Path]:
    """Provide a file, or a temporary copy from its origin if this host cannot see the file.

    Raises:
        UnreadableError: nothing could be fetched from there.
    """
    if origin is None or file.exists():
        yield file
        return
    from tempfile import TemporaryDirectory

    _require(origin)
    folder_of, _, name = origin.rpartition("/")
    with TemporaryDirectory(prefix="retrace-") as folder:
        yield _copy_one(folder_of, name.removesuffix(SUFFIXES[0]), Path(folder))


def _require(address: str) -> None:
    try:
        import fsspec  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport] # noqa: F401
    except ImportError:
        raise UnreadableError(
            f"{address} is in an object store: to read it, pip install 'retrace-jax[remote]'"
        ) from None


@cache
def _fetched(address: str) -> Path:
    import atexit
    import shutil
    import tempfile

    _require(address)
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    folder = Path(tempfile.mkdtemp(prefix="retrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Keep its name, which messages show.
    folder_of, _, name = address.rstrip("/").rpartition("/")
    if name.endswith(SUFFIXES[0]) and _NAME.fullmatch(name):
        # A single process: its file and the text of its programs.
        _origins[folder] = folder_of
        return _copy_one(folder_of, name.removesuffix(SUFFIXES[0]), folder)
    # The name `.retrace` matters: only the newest recording in it is read, as on disk.
    keeps_name = name == ".retrace" or _NAME.fullmatch(name) is not None
    target = folder / (name if keeps_name else "recording")
    target.mkdir()
    _origins[target] = address.rstrip("/")
    try:
        system, root = _call(cast(Any, fsspec).core.url_to_fs, address)
        _copy(system, root.rstrip("/"), target)
    except UnreadableError as error:
        raise UnreadableError(f"cannot read {address}: {error}") from None
    except OSError as error:
        raise UnreadableError(f"cannot copy {address} to {target}: {reason(error)}") from None
    return target


def _copy_one(address: str, name: str, folder: Path) -> Path:
    """Copy a single file of a recording and its programs."""
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    file = folder / f"{name}{SUFFIXES[0]}"
    try:
        system, root = _call(cast(Any, fsspec).core.url_to_fs, address)
        _copy(system, root.rstrip("/"), folder, name)
    except UnreadableError as error:
        raise UnreadableError(f"cannot read {address}/{file.name}: {error}") from None
    except OSError as error:
        raise UnreadableError(
            f"cannot copy {address}/{file.name} to {folder}: {reason(error)}"
        ) from None
    return file


class Store:
    """A folder in an object store, for writing."""

    def __init__(self, address: str) -> None:
        """Raises UnreadableError if there is no such store."""
        import fsspec  # pyright: ignore[reportMissingTypeStubs]

        self._system, root = _call(cast(Any, fsspec).core.url_to_fs, address)
        self._root = root.rstrip("/")

    def put(self, name: str, data: bytes) -> None:
        """Write an object; raises UnreadableError on failure."""
        _call(self._system.pipe_file, f"{self._root}/{name}", data)

    def remove(self, names: list[str]) -> None:
        """Remove objects; raises UnreadableError on failure."""
        if names:
            _call(self._system.rm, [f"{self._root}/{name}" for name in names])

    def members(self) -> dict[int, list[dict[str, Any]]]:
        """The processes of each attempt recorded here, by its number."""
        found: dict[int, list[dict[str, Any]]] = {}
        self._system.invalidate_cache()
        if not _call(self._system.exists, self._root):
            return found
        for path in _call(self._system.find, self._root, maxdepth=1)[:_MAX_FILES]:
            name = path.rpartition("/")[2]
            if (named := _MEMBER.fullmatch(name)) is None:
                continue
            with suppress(ValueError, RecursionError):
                member = json.loads(_call(self._system.cat_file, path))
                if isinstance(member, dict):
                    found.setdefault(int(named[1]), []).append(cast(dict[str, Any], member))
        return found


def part_name(name: str, start: int, end: int) -> str:
    """The name of a part of a file, by its range of bytes: `NAME.0-4096`."""
    return f"{name}.{start}-{end}"


class _Object(Row):
    path: str
    start: int
    end: int


def _call(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call a store. Stores raise their own errors, whose only common class is `Exception`."""
    try:
        return function(*given, **options)
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableError(message[:300]) from error


def _copy(system: Any, root: str, target: Path, only: str | None = None) -> None:
    """Copy files that may belong to recordings, from a folder and its subfolders.

    Args:
        system: the file system of the object store.
        root: the folder in the store.
        target: the local folder.
        only: copy only the files of the process with this name, directly in `root`.
    """
    left, number = _MAX_BYTES, 0
    found = _files_in(system, root, 2 if only is None else 1)
    for inner, objects in found.items():
        if only is not None and name_of(Path(inner)) != only:
            continue
        number += len(objects)
        if number > _MAX_FILES:
            raise UnreadableError(_TOO_MUCH)
        file = target / inner
        file.parent.mkdir(exist_ok=True)
        with file.open("xb") as copy:
            for path, start, end in _in_order(objects):
                if end > left:
                    raise UnreadableError(_TOO_MUCH)
                with _call(system.open, path, "rb") as source:
                    _call(source.seek, copy.tell() - start)
                    while piece := _call(source.read, _CHUNK):
                        if copy.tell() + copy.write(piece) > left:
                            raise UnreadableError(_TOO_MUCH)
            left -= copy.tell()
    if not number or (only is not None and not (target / f"{only}{SUFFIXES[0]}").exists()):
        raise UnreadableError("there is no recording")


def _files_in(system: Any, root: str, depth: int) -> dict[str, list[_Object]]:
    """Files that may belong to recordings, by path below `root`: the objects of each."""
    found: dict[str, list[_Object]] = {}
    for path, about in _call(system.find, root, maxdepth=depth, detail=True).items():
        inner = path[len(root) :].strip("/")
        if not path.startswith(f"{root}/") or (named := _PART.fullmatch(inner)) is None:
            continue
        if all(_NAME.fullmatch(part) for part in inner.split("/")):
            start, end = (named[2], named[3]) if named[2] else (0, about.get("size") or 0)
            found.setdefault(named[1], []).append(_Object(path, int(start), int(end)))
    return found


def _in_order(objects: list[_Object]) -> Iterator[_Object]:
    """The objects that make up a file, each continuing where the previous one ends."""
    at = 0
    while nearest := [one for one in objects if one.start <= at < one.end]:
        longest = max(nearest, key=lambda one: one.end)
        yield longest
        at = longest.end

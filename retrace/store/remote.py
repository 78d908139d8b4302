"""Recordings in object stores: put there, and fetched to be read as those in folders are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from retrace.errors import UnreadableError
from retrace.store.files import reason
from retrace.store.segments import name_of

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):[/\\]+(.+)", re.DOTALL)
"""An address; a path has made its two slashes one. A drive has one letter."""
_NAME = re.compile(r"[\w][\w.@+-]{0,200}")
_PART = re.compile(r"(.*\.(?:jsonl|programs))(?:\.(\d{1,15})-(\d{1,15}))?", re.DOTALL)
_MEMBER = re.compile(r"\.attempt-(\d{1,9})\..*", re.DOTALL)
OURS = (".jsonl", ".programs")
"""How the files of a recording end."""
_MAX_FILES = 10_000
_MAX_BYTES = 1 << 36
_STEP = 1 << 20
_TOO_MUCH = "it holds more than can be copied; name one recording in it"


def is_address(path: Path | str) -> bool:
    """Whether a path is an address of an object store; a path on disk never is one."""
    return _ADDRESS.fullmatch(str(path)) is not None and not Path(path).exists()


def address_of(path: Path) -> str | None:
    """The address of an object store that a path stands for; None of a path on disk."""
    found = _ADDRESS.fullmatch(str(path)) if is_address(path) else None
    return None if found is None else f"{found[1]}://{found[2]}"


def local(path: Path) -> Path:
    """Where the recording at a path can be read: there, or in a copy that goes at exit.

    Raises:
        UnreadableError: the path is an address from which nothing could be fetched.
    """
    address = address_of(path)
    return path if address is None else _fetched(address)


_origins: dict[Path, str] = {}
"""What was copied from where."""


def origin_of(file: Path) -> str | None:
    """The address of a file that was copied from an object store; None of another one."""
    for folder in file.parents:
        if (address := _origins.get(folder)) is not None:
            return f"{address}/{file.relative_to(folder).as_posix()}"
    return None


@contextmanager
def at_hand(file: Path, origin: str | None) -> Generator[Path]:
    """A file, or for who does not see it a copy of what is at its origin, for a while.

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
        yield _one(folder_of, name.removesuffix(OURS[0]), Path(folder))


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
    # Under the name that it has there, which messages show.
    folder_of, _, name = address.rstrip("/").rpartition("/")
    if name.endswith(OURS[0]) and _NAME.fullmatch(name):
        # One process: its file, with the text of its programs beside it.
        _origins[folder] = folder_of
        return _one(folder_of, name.removesuffix(OURS[0]), folder)
    # Of a `.retrace` the newest recording in it is meant, as of one on disk.
    keeps = name == ".retrace" or _NAME.fullmatch(name) is not None
    target = folder / (name if keeps else "recording")
    target.mkdir()
    _origins[target] = address.rstrip("/")
    try:
        system, root = _answer(cast(Any, fsspec).core.url_to_fs, address)
        _copy(system, root.rstrip("/"), target)
    except UnreadableError as error:
        raise UnreadableError(f"cannot read {address}: {error}") from None
    except OSError as error:
        raise UnreadableError(f"cannot copy {address} to {target}: {reason(error)}") from None
    return target


def _one(address: str, name: str, folder: Path) -> Path:
    """A single file of a recording, in a copy of what belongs to it."""
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    file = folder / f"{name}{OURS[0]}"
    try:
        system, root = _answer(cast(Any, fsspec).core.url_to_fs, address)
        _copy(system, root.rstrip("/"), folder, name)
    except UnreadableError as error:
        raise UnreadableError(f"cannot read {address}/{file.name}: {error}") from None
    except OSError as error:
        raise UnreadableError(
            f"cannot copy {address}/{file.name} to {folder}: {reason(error)}"
        ) from None
    return file


class Store:
    """A folder of an object store, to write to."""

    def __init__(self, address: str) -> None:
        """Raises UnreadableError where there is no such store."""
        import fsspec  # pyright: ignore[reportMissingTypeStubs]

        self._system, root = _answer(cast(Any, fsspec).core.url_to_fs, address)
        self._root = root.rstrip("/")

    def put(self, name: str, data: bytes) -> None:
        """Write an object; raises UnreadableError where that fails."""
        _answer(self._system.pipe_file, f"{self._root}/{name}", data)

    def remove(self, names: list[str]) -> None:
        """Remove objects; raises UnreadableError where that fails."""
        if names:
            _answer(self._system.rm, [f"{self._root}/{name}" for name in names])

    def members(self) -> dict[int, list[dict[str, Any]]]:
        """The processes of each attempt that was recorded here, by its number."""
        found: dict[int, list[dict[str, Any]]] = {}
        self._system.invalidate_cache()
        if not _answer(self._system.exists, self._root):
            return found
        for path in _answer(self._system.find, self._root, maxdepth=1)[:_MAX_FILES]:
            name = path.rpartition("/")[2]
            if (told := _MEMBER.fullmatch(name)) is None:
                continue
            with suppress(ValueError, RecursionError):
                member = json.loads(_answer(self._system.cat_file, path))
                if isinstance(member, dict):
                    found.setdefault(int(told[1]), []).append(cast(dict[str, Any], member))
        return found


def part_name(name: str, start: int, end: int) -> str:
    """What a part of a file is called: `NAME.0-4096`, by the bytes that it holds."""
    return f"{name}.{start}-{end}"


class _Object(NamedTuple):
    path: str
    start: int
    end: int


def _answer(ask: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What a store answers; its errors are of its own, and share no class below `Exception`."""
    try:
        return ask(*given, **options)
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableError(said[:300]) from error


def _copy(system: Any, root: str, target: Path, only: str | None = None) -> None:
    """Copy what may be a recording's, of a folder or of the folders in it.

    Args:
        system: of the object store.
        root: the folder there.
        target: the folder here.
        only: the name of the one process whose files are wanted, which lie in `root` itself.
    """
    left, number = _MAX_BYTES, 0
    found = _found(system, root, 2 if only is None else 1)
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
                with _answer(system.open, path, "rb") as source:
                    _answer(source.seek, copy.tell() - start)
                    while piece := _answer(source.read, _STEP):
                        if copy.tell() + copy.write(piece) > left:
                            raise UnreadableError(_TOO_MUCH)
            left -= copy.tell()
    if not number or (only is not None and not (target / f"{only}{OURS[0]}").exists()):
        raise UnreadableError("no recording is there")


def _found(system: Any, root: str, depth: int) -> dict[str, list[_Object]]:
    """What may be files of recordings, by the path below `root`, each whole or in parts."""
    found: dict[str, list[_Object]] = {}
    for path, about in _answer(system.find, root, maxdepth=depth, detail=True).items():
        inner = path[len(root) :].strip("/")
        if not path.startswith(f"{root}/") or (told := _PART.fullmatch(inner)) is None:
            continue
        if all(_NAME.fullmatch(part) for part in inner.split("/")):
            start, end = (told[2], told[3]) if told[2] else (0, about.get("size") or 0)
            found.setdefault(told[1], []).append(_Object(path, int(start), int(end)))
    return found


def _in_order(objects: list[_Object]) -> Iterator[_Object]:
    """The objects that a file is put together from: each goes on where the one before it ends."""
    at = 0
    while nearest := [one for one in objects if one.start <= at < one.end]:
        longest = max(nearest, key=lambda one: one.end)
        yield longest
        at = longest.end

"""Fetches recordings from object stores, so that they are read as those in folders are."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from retrace.errors import UnreadableError
from retrace.store.files import reason

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):[/\\]+(.+)", re.DOTALL)
"""An address; a path has made its two slashes one. A drive has one letter."""
_NAME = re.compile(r"[\w][\w.@+-]{0,200}")
_OURS = (".jsonl", ".programs")
_MOST_FILES = 10_000
_MOST_BYTES = 1 << 36
_STEP = 1 << 20
_TOO_MUCH = "it holds more than can be copied; name one recording in it"


def is_address(path: Path | str) -> bool:
    """Whether a path is an address of an object store; a path on disk never is one."""
    return _ADDRESS.fullmatch(str(path)) is not None and not Path(path).exists()


def local(path: Path) -> Path:
    """Where the recording at a path can be read: there, or in a copy that goes at exit.

    Raises:
        UnreadableError: the path is an address from which nothing could be fetched.
    """
    found = _ADDRESS.fullmatch(str(path)) if is_address(path) else None
    return path if found is None else _fetched(f"{found[1]}://{found[2]}")


@cache
def _fetched(address: str) -> Path:
    import atexit
    import shutil
    import tempfile

    try:
        import fsspec  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise UnreadableError(
            f"{address} is in an object store: to read it, pip install 'retrace-jax[remote]'"
        ) from None
    folder = Path(tempfile.mkdtemp(prefix="retrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Under the name that it has there, which messages show.
    folder_of, _, name = address.rstrip("/").rpartition("/")
    if name.endswith(_OURS[0]) and _NAME.fullmatch(name):
        # One process: its file, with the text of its programs beside it.
        return _one(folder_of, name.removesuffix(_OURS[0]), folder)
    # Of a `.retrace` the newest recording in it is meant, as of one on disk.
    keeps = name == ".retrace" or _NAME.fullmatch(name) is not None
    target = folder / (name if keeps else "recording")
    target.mkdir()
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

    file = folder / f"{name}{_OURS[0]}"
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
    left, files = _MOST_BYTES, 0
    depth = 2 if only is None else 1
    wanted = None if only is None else {f"{only}{ending}" for ending in _OURS}
    for found, about in _answer(system.find, root, maxdepth=depth, detail=True).items():
        inner = found[len(root) :].strip("/").split("/")
        if not found.startswith(f"{root}/") or not inner[-1].endswith(_OURS):
            continue
        if not all(_NAME.fullmatch(part) for part in inner):
            continue
        if wanted is not None and "/".join(inner) not in wanted:
            continue
        files += 1
        if files > _MOST_FILES or (about.get("size") or 0) > left:
            raise UnreadableError(_TOO_MUCH)
        file = target.joinpath(*inner)
        file.parent.mkdir(exist_ok=True)
        with _answer(system.open, found, "rb") as source, file.open("xb") as copy:
            while piece := _answer(source.read, _STEP):
                left -= copy.write(piece)
                if left < 0:
                    raise UnreadableError(_TOO_MUCH)
    if not files or (only is not None and not (target / f"{only}{_OURS[0]}").exists()):
        raise UnreadableError("no recording is there")

"""Where recordings are stored: each in its own directory, with one file for each process."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from retrace.errors import UnreadableError, UsageError
from retrace.regex import regex
from retrace.store import files
from retrace.store.attempts import clear, join, known_job, numbers_of
from retrace.store.remote import address_of

ROOT = Path(".retrace")
"""Where recordings go if no directory is given."""

REQUEST = ".audit"
"""Suffix to the id of a run: a file that requests an audit of it."""
HEADER = '{"retrace":'
"""What the file of a process starts with."""

_HEADER = re.compile(rb'\s*\{\s*"retrace"\s*:')
"""The same, also if a program rewrote the line with other spaces."""

_TIME = "%Y-%m-%dT%H-%M-%S"
_NAMED_BY_TIME = regex(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)(?:-(\d{1,9}))?")
_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"


def new_run_id() -> str:
    """Create a short id for a process, `[a-z][0-9a-z]*`, unique across processes and hosts."""
    # Not from `random`: that would change the program's random state, and a forked child would
    # draw the same numbers as its parent.
    number = int.from_bytes(os.urandom(8))
    text = _DIGITS[number % 26]
    number //= 26
    for _ in range(6):
        number, digit = divmod(number, len(_DIGITS))
        text += _DIGITS[digit]
    return text


def create(
    out: Path | None = None,
    *,
    force: bool = False,
    append: bool = False,
    job: str | None = None,
) -> Path:
    """Create the directory of a recording, and join or begin an attempt in it.

    Args:
        out: the directory; None for one under `.retrace/`: that of the job if known, otherwise
            a new one named by time (UTC).
        force: delete the recordings in `out`, except those of the attempt that this process
            belongs to; other files stay.
        append: always join the newest attempt in `out`.
        job: the name of the job; by default the one reported by the scheduler.

    Returns:
        Its absolute path, because the program may change its working directory.

    Raises:
        UsageError: `out` cannot be written to.
    """
    directory = ROOT if out is None else out
    if (address := address_of(directory)) is not None:
        raise UsageError(
            f"{address} is in an object store: `retrace run --out {address}` sends a recording "
            "there; here, name a directory"
        )
    known = known_job(job)
    try:
        if out is None:
            _make_root(ROOT.absolute())
            out = _job_directory(known.name) if known.name else _new_directory(ROOT.absolute())
        _make(out)
        # List the files before the attempts: a file never exists before its attempt.
        old = list(recording_files(out)) if force else []
        before = numbers_of(out) if force else []
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        attempt = join(out.absolute(), known, append=append)
        # If several processes of a job use `force`, the later ones join the first one's attempt.
        if attempt.number not in before:
            for file in old:
                file.unlink(missing_ok=True)
                file.with_suffix(".programs").unlink(missing_ok=True)
            clear(out, before)
        return out.absolute()
    except FileExistsError:
        raise UsageError(f"{directory} is a file: name a directory with --out DIR") from None
    except OSError as error:
        raise UsageError(
            f"cannot write a recording to {directory} ({files.reason(error)}): "
            "name a directory that can be written to with --out DIR"
        ) from error


def create_own() -> Path:
    """Create a directory under `.retrace/` for a single program, regardless of its job.

    Raises:
        UsageError: it cannot be created.
    """
    try:
        root = ROOT.absolute()
        _make_root(root)
        return _new_directory(root)
    except OSError as error:
        raise UsageError(
            f"cannot write to {ROOT} ({files.reason(error)}): start the program where "
            "files can be created"
        ) from error


def _make(directory: Path) -> None:
    """Create a directory and its parents; if that is world-writable, only for this user."""
    parent = directory.absolute().parent
    if not os.path.lexists(parent):
        _make(parent)
    shared = files.is_shared(parent)
    try:
        # Recordings contain values of the program.
        directory.mkdir(mode=0o700 if shared else 0o777)
    except FileExistsError:
        if shared and files.is_foreign(directory.lstat()):
            # Its owner could read what is written there, or it may be a link to elsewhere.
            raise UsageError(
                f"{directory} belongs to another user, in a world-writable folder: name another "
                "directory with --out DIR"
            ) from None
        if not directory.is_dir():
            raise


def discard(directory: Path, process: int | None = None) -> None:
    """Remove the directory of a recording if nothing was written to it.

    Args:
        directory: kept if it contains anything.
        process: the process that created it; a forked child leaves it alone.
    """
    if process in (None, os.getpid()):
        if any(directory.glob("[!.]*")):
            return
        clear(directory, numbers_of(directory))
        with suppress(OSError):
            directory.rmdir()


def recordings(root: Path | None = None) -> Iterator[Path]:
    """Yield the recordings under `root`, newest first; nothing if there is no such directory.

    The default `root` is the nearest `.retrace/`.
    """
    root = nearest_root() if root is None else root
    try:
        directories = [root / entry.name for entry in os.scandir(root) if _is_directory(entry)]
    except OSError:
        return
    for directory in sorted(directories, key=_start_order, reverse=True):
        if holds_recording(directory):
            yield directory


def written_by(process: int) -> Iterator[Path]:
    """Yield the recordings that a process of this host has open, if the system can tell."""
    found: dict[Path, None] = {}
    try:
        for entry in os.scandir(f"/proc/{process}/fd"):
            with suppress(OSError):  # closed in the meantime
                path = Path(os.readlink(entry.path))
                if path.suffix == ".jsonl":
                    found[path.parent] = None
    except OSError:
        return
    yield from filter(holds_recording, found)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link, or one to a place we cannot access
        return False


def nearest_root() -> Path:
    """The `.retrace/` in this folder, or else in the nearest parent that has one."""
    with suppress(OSError):
        for folder in Path.cwd().parents if not os.path.isdir(ROOT) else ():
            if os.path.isdir(folder / ROOT):
                return folder / ROOT
    return ROOT


def newest(root: Path | None = None) -> Path:
    """Return the newest recording under `root`; raises UnreadableError if there is none."""
    root = nearest_root() if root is None else root
    for directory in recordings(root):
        return directory
    raise UnreadableError(
        f"no recording under {root}/: make one with `retrace run SCRIPT`, "
        "or name the directory of a recording"
    )


def begun(directory: Path | None) -> Path | None:
    """The recording in a directory, or the newest of all, even if it is still empty.

    None if there is no recording and no process has announced one.
    """
    if directory is None or directory.absolute().name == ROOT.name:
        root = nearest_root() if directory is None else directory
        try:
            found = [root / entry.name for entry in os.scandir(root) if _is_directory(entry)]
        except OSError:
            return None
        for one in sorted(found, key=_start_order, reverse=True):
            if holds_recording(one) or numbers_of(one):
                return one
        return None
    if holds_recording(directory) or numbers_of(directory):
        return directory
    return next(recordings(directory), None)


def inside(folder: Path) -> list[Path]:
    """The recordings in a folder that a command should read; for a `.retrace/`, the newest."""
    found = list(recordings(folder))
    return found[:1] if folder.absolute().name == ROOT.name else sorted(found)


def holds_recording(directory: Path) -> bool:
    """Whether `directory` directly contains a file of a recording."""
    return next(recording_files(directory), None) is not None


def recording_files(directory: Path) -> Iterator[Path]:
    """Yield the files in `directory` that start like a recording, sorted by name."""
    for path in sorted(directory.glob("*.jsonl")):
        try:
            with files.opened(path) as file:
                if _HEADER.match(file.read(64)):
                    yield path
        except OSError:
            continue


def _make_root(root: Path) -> None:
    if not root.is_dir():
        _make(root)
        _write_new(root / ".gitignore", "*\n")
    elif files.is_shared(root.parent):
        _make(root)  # raises if it belongs to another user


def _job_directory(name: str) -> Path:
    """The directory that all processes of a job share."""
    return ROOT.absolute() / (re.sub(r"[^\w.-]+", "-", name).strip(".-")[:100] or "job")


def _new_directory(root: Path) -> Path:
    name = datetime.now(UTC).strftime(_TIME)
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(mode=0o700 if files.is_shared(root) else 0o777)
        except FileExistsError:
            number += 1
        else:
            return path


def _write_new(path: Path, text: str) -> None:
    with suppress(FileExistsError), path.open("x") as file:
        file.write(text)


def _start_order(directory: Path) -> tuple[str, int, str]:
    if named := _NAMED_BY_TIME.fullmatch(directory.name):
        return named[1], int(named[2] or 1), directory.name
    try:
        changed = directory.stat().st_mtime
    except OSError:
        changed = 0.0
    return datetime.fromtimestamp(changed, UTC).strftime(_TIME), 0, directory.name

"""Where recordings lie: one directory each, one file in it for each process."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from retrace.errors import UnreadableError, UsageError
from retrace.store import files
from retrace.store.attempts import clear, join, known_job, numbers_of
from retrace.store.remote import address_of

ROOT = Path(".retrace")
"""Where recordings go that were given no directory."""

REQUEST = ".audit"
"""Behind the id of a run: a file by which an audit of it is asked for."""
HEADER = '{"retrace":'
"""How the file of a process begins."""

_HEADER = re.compile(rb'\s*\{\s*"retrace"\s*:')
"""The same, where a program wrote the line anew with other spaces."""

_TIME = "%Y-%m-%dT%H-%M-%S"
_NAMED_BY_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)(?:-(\d{1,9}))?")
_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"


def new_run_id() -> str:
    """An id for a process: short, `[a-z][0-9a-z]*`, another in each process and host."""
    # From the system, not from `random`: the program's random state is its own,
    # and a forked child would draw its parent's numbers.
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
    """Make the directory of a recording, and join or begin an attempt in it.

    Args:
        out: the directory; None for one under `.retrace/`: of the job where it is known, else
            a new one, named by time (UTC).
        force: empty `out` of the recordings that it holds, but those of the attempt that this
            process belongs to; other files stay.
        append: join the newest attempt in `out` in any case.
        job: the name of the job; otherwise what the scheduler tells.

    Returns:
        Its absolute path: the program may change its working directory.

    Raises:
        UsageError: `out` cannot be written to.
    """
    directory = ROOT if out is None else out
    if (address := address_of(directory)) is not None:
        raise UsageError(
            f"{address} is in an object store: `retrace run --out {address}` sends a recording "
            "there; here, name a directory"
        )
    told = known_job(job)
    try:
        if out is None:
            _root(ROOT.absolute())
            out = _of_job(told.name) if told.name else _new_directory(ROOT.absolute())
        _make(out)
        # In this order: no file was there yet of an attempt that is not.
        old = list(recording_files(out)) if force else []
        before = numbers_of(out) if force else []
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        attempt = join(out.absolute(), told, append=append)
        # Of several processes of a job that all replace, the later ones find the first one's.
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
    """Make a directory under `.retrace/` for one program alone, whatever its job is.

    Raises:
        UsageError: none can be made here.
    """
    try:
        root = ROOT.absolute()
        _root(root)
        return _new_directory(root)
    except OSError as error:
        raise UsageError(
            f"cannot write to {ROOT} ({files.reason(error)}): start the program where "
            "files can be made"
        ) from error


def _make(directory: Path) -> None:
    """Make a directory and those above it, as safe as the folder around them is."""
    parent = directory.absolute().parent
    if not os.path.lexists(parent):
        _make(parent)
    shared = files.is_shared(parent)
    try:
        # Recordings hold values of the program.
        directory.mkdir(mode=0o700 if shared else 0o777)
    except FileExistsError:
        if shared and files.is_foreign(directory.lstat()):
            # Whoever made it may read what is written there, or a link leads it elsewhere.
            raise UsageError(
                f"{directory} belongs to another user, in a folder that everybody may write "
                "to: name another directory with --out DIR"
            ) from None
        if not directory.is_dir():
            raise


def discard(directory: Path, process: int | None = None) -> None:
    """Remove the directory of a recording to which nothing was written.

    Args:
        directory: stays where anything lies in it.
        process: that made it; a child that it forked leaves it alone.
    """
    if process in (None, os.getpid()):
        if any(directory.glob("[!.]*")):
            return
        clear(directory, numbers_of(directory))
        with suppress(OSError):
            directory.rmdir()


def recordings(root: Path | None = None) -> Iterator[Path]:
    """The recordings under `root`, newest first; none where there is no such directory.

    Without `root`, those under the nearest `.retrace/`.
    """
    root = nearest_root() if root is None else root
    try:
        directories = [root / entry.name for entry in os.scandir(root) if _is_directory(entry)]
    except OSError:
        return
    for directory in sorted(directories, key=_began, reverse=True):
        if holds_recording(directory):
            yield directory


def written_by(process: int) -> Iterator[Path]:
    """The recordings that a process of this host has open, where the system tells."""
    found: dict[Path, None] = {}
    try:
        for entry in os.scandir(f"/proc/{process}/fd"):
            with suppress(OSError):  # closed meanwhile
                path = Path(os.readlink(entry.path))
                if path.suffix == ".jsonl":
                    found[path.parent] = None
    except OSError:
        return
    yield from filter(holds_recording, found)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a ring, or to where we may not look
        return False


def nearest_root() -> Path:
    """The `.retrace/` here, or else in the nearest folder above that has one."""
    with suppress(OSError):
        for folder in Path.cwd().parents if not os.path.isdir(ROOT) else ():
            if os.path.isdir(folder / ROOT):
                return folder / ROOT
    return ROOT


def newest(root: Path | None = None) -> Path:
    """The newest recording under `root`; raises UnreadableError where there is none."""
    root = nearest_root() if root is None else root
    for directory in recordings(root):
        return directory
    raise UnreadableError(
        f"no recording under {root}/: make one with `retrace run SCRIPT`, "
        "or name the directory of one"
    )


def begun(directory: Path | None) -> Path | None:
    """The recording in a directory, or the newest of all, also where nothing is in it yet.

    None where there is none, nor a process that has said that it will record.
    """
    if directory is None or directory.absolute().name == ROOT.name:
        root = nearest_root() if directory is None else directory
        try:
            found = [root / entry.name for entry in os.scandir(root) if _is_directory(entry)]
        except OSError:
            return None
        for one in sorted(found, key=_began, reverse=True):
            if holds_recording(one) or numbers_of(one):
                return one
        return None
    if holds_recording(directory) or numbers_of(directory):
        return directory
    return next(recordings(directory), None)


def inside(folder: Path) -> list[Path]:
    """The recordings that a folder of recordings stands for: of a `.retrace/` the newest."""
    found = list(recordings(folder))
    return found[:1] if folder.absolute().name == ROOT.name else sorted(found)


def holds_recording(directory: Path) -> bool:
    """Whether a file of a recording lies directly in `directory`."""
    return next(recording_files(directory), None) is not None


def recording_files(directory: Path) -> Iterator[Path]:
    """The files in `directory` that begin as a recording does, in order of name."""
    for path in sorted(directory.glob("*.jsonl")):
        try:
            with files.opened(path) as file:
                if _HEADER.match(file.read(64)):
                    yield path
        except OSError:
            continue


def _root(root: Path) -> None:
    if not root.is_dir():
        _make(root)
        _write_new(root / ".gitignore", "*\n")
    elif files.is_shared(root.parent):
        _make(root)  # which says whose it is


def _of_job(name: str) -> Path:
    """The directory that all processes of a job find."""
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


def _began(directory: Path) -> tuple[str, int, str]:
    if named := _NAMED_BY_TIME.fullmatch(directory.name):
        return named[1], int(named[2] or 1), directory.name
    try:
        changed = directory.stat().st_mtime
    except OSError:
        changed = 0.0
    return datetime.fromtimestamp(changed, UTC).strftime(_TIME), 0, directory.name

"""The git commit of the program, and whether files have changed since.

Read from git's own files: starting a process would cost more than everything else here.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha1, sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from retrace.store.files import content

if TYPE_CHECKING:
    from retrace.store.writer import Writer

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_LEVELS = 40
"""Maximum number of parent folders searched for a checkout."""
_MAX_TEXT_BYTES = 1 << 22
_MAX_INDEX_BYTES = 1 << 26
_MAX_SECONDS = 0.25
"""Time limit for examining the files of a checkout; when it is reached, the answer is unknown."""
_CHECK_EVERY = 64
"""Number of files examined between two checks of the time."""

_HEADER = 12
_NUMBERS = Struct(">10L")
_ASSUMED, _EXTENDED, _CONFLICT = 0x8000, 0x4000, 0x3000
_SKIPPED, _LATER = 0x4000, 0x2000
"""Flags of a file in the index, and the additional ones since format 3."""


class Checkout(NamedTuple):
    """Where the working files of a repository are, and where git keeps its data about them."""

    root: Path
    own: Path
    """For this checkout only: `HEAD`, `index`."""
    shared: Path
    """For all checkouts of the repository: branches, settings."""


class _Entry(NamedTuple):
    """A file in git's index."""

    path: bytes
    mode: int
    size: int
    changed: int
    """Time of its last change, in nanoseconds since the epoch."""
    hash: bytes
    is_overlooked: bool
    """git was told to ignore changes to it."""
    is_uncommitted: bool
    """In a conflict or marked to be added later, so no commit contains this state."""


@lru_cache(maxsize=16)
def checkout_of(argv0: str, here: str) -> Checkout | None:
    """The checkout that contains the program, or else the folder it was started in."""
    script = os.path.dirname(os.path.abspath(argv0)) if os.path.isfile(argv0) else ""
    for folder in filter(None, (script, here)):
        if (found := _around(Path(folder))) is not None:
            return found
    return None


def _around(folder: Path) -> Checkout | None:
    for root in (folder, *folder.parents)[:_MAX_LEVELS]:
        git = root / ".git"
        try:
            mode = os.stat(git).st_mode
            if stat.S_ISDIR(mode):
                own = git
            else:  # in a worktree or a submodule, a file that names the folder
                text = content(git, _MAX_TEXT_BYTES).decode()
                own = root / text.removeprefix("gitdir:").strip()
            shared = own
            if (own / "commondir").exists():
                shared = own / content(own / "commondir", _MAX_TEXT_BYTES).decode().strip()
            if (own / "HEAD").exists():
                return Checkout(root, own, shared)
        except (OSError, ValueError):
            continue
    return None


def commit_of(checkout: Checkout) -> str | None:
    """The commit that is checked out; None if there is none or it cannot be read."""
    try:
        head = content(checkout.own / "HEAD", _MAX_TEXT_BYTES).decode().strip()
        for _ in range(5):  # a branch may refer to another branch
            if not head.startswith("ref:"):
                return head if _ID.fullmatch(head) else None
            branch = head.removeprefix("ref:").strip()
            if ".." in Path(branch).parts or os.path.isabs(branch):
                return None
            head = _branch(checkout, branch)
    except (OSError, ValueError):
        pass
    return None


def _branch(checkout: Checkout, name: str) -> str:
    for folder in (checkout.own, checkout.shared):
        try:
            return content(folder / name, _MAX_TEXT_BYTES).decode().strip()
        except FileNotFoundError:
            continue
    for line in content(checkout.shared / "packed-refs", _MAX_TEXT_BYTES).decode().splitlines():
        commit, _, branch = line.partition(" ")
        if branch == name:
            return commit
    return ""


def tell_whether_dirty(writer: Writer, checkout: Checkout) -> None:
    """Write to a recording whether files changed since the commit, if that is known."""
    if (dirty := is_dirty(checkout)) is not None:
        writer.amend_run({"dirty": dirty})


def is_dirty(checkout: Checkout, seconds: float = _MAX_SECONDS) -> bool | None:
    """Whether a tracked file was changed since the commit; None if unknown.

    Examines files as `git status` does: by size and time, and by content if these are
    inconclusive. Untracked files do not count.

    Args:
        checkout: the checkout to examine.
        seconds: time limit.
    """
    until = time.monotonic() + seconds
    try:
        index = checkout.own / "index"
        written = os.stat(index).st_mtime_ns
        data = content(index, _MAX_INDEX_BYTES)
        size = 32 if _uses_sha256(checkout) else 20
        unsure, at = False, _HEADER
        for number, (entry, end) in enumerate(_entries(data, size)):
            at = end
            if number % _CHECK_EVERY == 0 and time.monotonic() > until:
                return None
            changed = _is_changed(checkout, entry, written, until)
            if changed:
                return True
            unsure = unsure or changed is None
        # Staged changes are in the index already, so the files match it.
        return None if unsure or not _is_committed(data[at : len(data) - size]) else False
    except (OSError, ValueError, IndexError):
        return None


def _uses_sha256(checkout: Checkout) -> bool:
    return b"sha256" in content(checkout.shared / "config", _MAX_TEXT_BYTES).lower()


def _entries(data: bytes, size: int) -> Iterator[tuple[_Entry, int]]:
    """The files in git's index (formats 2 to 4), each with the offset of the next.

    Raises:
        ValueError: the index is malformed or of an unknown format.
        IndexError: the index is truncated.
    """
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index that is known")
    at, path = _HEADER, b""
    for _ in range(count):
        start = at
        numbers = _NUMBERS.unpack_from(data, at) if at + _NUMBERS.size <= len(data) else None
        if numbers is None:
            raise ValueError("a torn index")
        at += _NUMBERS.size
        hash_ = data[at : at + size]
        flags = int.from_bytes(data[at + size : at + size + 2])
        at += size + 2
        extended = 0
        if flags & _EXTENDED:
            extended = int.from_bytes(data[at : at + 2])
            at += 2
        if version == 4:  # a path states how much of the previous one it drops
            drop, at = _offset(data, at)
            end = data.index(0, at)
            path = path[: len(path) - drop] + data[at:end]
            at = end + 1
        else:
            end = data.index(0, at)
            path = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        entry = _Entry(
            path,
            numbers[6],
            numbers[9],
            numbers[2] * 10**9 + numbers[3],
            hash_,
            bool(flags & _ASSUMED or extended & _SKIPPED),
            bool(flags & _CONFLICT or extended & _LATER),
        )
        yield entry, at


def _offset(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 127)
    return value, at + 1


def _is_changed(checkout: Checkout, entry: _Entry, written: int, until: float) -> bool | None:
    kind = stat.S_IFMT(entry.mode)
    if entry.is_uncommitted:
        return True
    if entry.is_overlooked or kind not in (stat.S_IFREG, stat.S_IFLNK):
        return False  # a nested repository, or a folder that is not checked out
    path = os.path.join(os.fsencode(checkout.root), entry.path)
    try:
        now = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    if stat.S_IFMT(now.st_mode) != kind:
        return True
    if kind == stat.S_IFREG and bool(now.st_mode & 0o100) != bool(entry.mode & 0o100):
        return None  # changed, or the file system has no such bit
    same_size = now.st_size & 0xFFFFFFFF == entry.size
    if not same_size and entry.size:  # git also writes 0 if the time was inconclusive
        return True
    # If a file changed while the index was written, it may have changed again afterwards.
    if same_size and now.st_mtime_ns == entry.changed < written:
        return False
    return _has_other_content(path, now, entry, checkout, until)


def _has_other_content(
    path: bytes, now: os.stat_result, entry: _Entry, checkout: Checkout, until: float
) -> bool | None:
    digest = sha256 if len(entry.hash) == 32 else sha1
    if stat.S_ISLNK(now.st_mode):
        data = os.fsencode(os.readlink(path))
    else:
        if now.st_size > _MAX_TEXT_BYTES * 4 or time.monotonic() > until:
            return None
        data = content(Path(os.fsdecode(path)), _MAX_TEXT_BYTES * 4)
    made = digest(b"blob %d\0" % len(data), usedforsecurity=False)
    made.update(data)
    if made.digest() == entry.hash:
        return False
    # git may store a file in another form than the working copy.
    return None if _may_convert(checkout) else True


def _may_convert(checkout: Checkout) -> bool:
    attributes = checkout.root / ".gitattributes", checkout.shared / "info" / "attributes"
    if any(file.exists() for file in attributes):
        return True
    settings = content(checkout.shared / "config", _MAX_TEXT_BYTES).lower()
    return b"autocrlf" in settings or b"[filter" in settings or b"attributesfile" in settings


def _is_committed(known: bytes) -> bool:
    """Whether the index caches the tree of all its files, as it does after a commit.

    Args:
        known: the part of the index that follows the files.
    """
    at = 0
    while at + 8 <= len(known):
        name = known[at : at + 4]
        length = int.from_bytes(known[at + 4 : at + 8])
        body = known[at + 8 : at + 8 + length]
        if name in (b"link", b"sdir"):  # the index is incomplete
            return False
        if name == b"TREE":
            # First the root: an empty name, and the number of files, or -1 if one was staged.
            return not body.partition(b"\0")[2].startswith(b"-")
        at += 8 + length
    return False

"""`retrace clean`: lists and removes old recordings."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from retrace.command import console
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.store.removal import Removable

_DEFAULT_KEEP = 10
_ROW_WIDTH = 72
"""Columns; on narrower terminals a row takes two lines."""


def clean(
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            help=f"Keep the newest N (default: {_DEFAULT_KEEP}; 0 with --older-than).",
        ),
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            help="Only recordings not written to for DAYS.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
) -> int:
    """List old recordings under .retrace/, and remove them if you confirm.

    Recordings still being written are kept. Without --yes it asks first; without a
    terminal it only lists them.

    Example:  retrace clean --keep 5 --older-than 30
    """
    from retrace.store import removal
    from retrace.store.place import nearest_root

    if keep is not None and keep < 0:
        raise UsageError(f"--keep must be 0 or more, not {keep}")
    if older_than is not None and not older_than >= 0:
        raise UsageError(f"--older-than must be 0 days or more, not {older_than:g}")
    kept = keep if keep is not None else 0 if older_than is not None else _DEFAULT_KEEP
    root, now = nearest_root(), time.time()
    if root.is_symlink():
        raise UsageError(f"{root} is a symbolic link: run clean where it points to")
    every = removal.found(root)
    before = now - (older_than or 0.0) * removal.DAY
    chosen = [one for one in every[kept:] if one.changed <= before]
    removable = [one for one in chosen if one.writer is None]
    if not chosen:
        console.say(f"no old recordings under {root}/: all {len(every):,} are kept")
        return 0
    width, _ = console.terminal(sys.stdout)
    console.write("".join(_row(one, now, width) for one in chosen), None)
    summary = f"{len(removable):,} of {len(every):,} recordings under {root}/, {_size(removable)}"
    if not removable:
        console.say(f"{summary}: nothing to remove")
        return 0
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            console.say(f"{summary}: pass --yes to remove them")
            return 0
        if not typer.confirm(f"retrace: remove {summary}?", err=True):
            return 0
    _remove(removable)
    console.say(f"removed {summary}")
    return 0


def _remove(removable: list[Removable]) -> None:
    from retrace.store import files, removal

    failed: list[str] = []
    for one in removable:
        try:
            removal.remove(one)
        except OSError as error:
            failed.append(f"{one.directory} ({files.reason(error)})")
    if failed:
        more = f" and {len(failed) - 3:,} more" if len(failed) > 3 else ""
        raise UsageError(f"cannot remove {', '.join(failed[:3])}{more}")


def _row(one: Removable, now: float, width: int) -> str:
    days = max(0, int((now - one.changed) / 86400))
    age = "today" if not days else f"{days:,} day{'s' if days > 1 else ''} old"
    processes = f"{one.processes:,} process{'es' if one.processes > 1 else ''}"
    kept = f"   kept: being written by {one.writer}" if one.writer else ""
    name = os.path.join(one.directory.parent.name, one.directory.name)
    if width < _ROW_WIDTH:
        return f"{name}\n  {age}, {processes}, {_size([one])}{kept}\n"
    return f"{name:<32} {age:>12} {processes:>14} {_size([one]):>10}{kept}\n"


def _size(recordings: list[Removable]) -> str:
    size = float(sum(one.size for one in recordings))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

"""`retrace report --open`: the page in a browser."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Literal

from retrace.command import console
from retrace.errors import UsageError


def page(format: str, output: Path | None) -> tuple[Literal["html"], Path]:
    """The format and the file of a page that is to be shown.

    Raises UsageError where another format was asked for.
    """
    if format not in ("text", "html"):
        raise UsageError(f"--open shows the page: leave out --format {format}")
    if output is not None and str(output) == "-":
        raise UsageError("--open shows a file: name another one than - with --output")
    # Of its user alone: the page holds what the recording holds.
    return "html", output or Path(tempfile.mkdtemp(prefix="retrace-")) / "report.html"


def show(path: Path) -> None:
    """Ask for a browser, and say where the page lies in any case."""
    path = path.absolute()
    browser = None
    # Without a display only a browser for terminals is left, which would take this one.
    if os.environ.get("BROWSER") or sys.platform != "linux" or _has_display():
        try:
            browser = webbrowser.get()
        except webbrowser.Error:
            pass
    if browser is not None and browser.open(path.as_uri()):
        console.say(f"opened {path}")
    else:
        console.say(f"no browser was found; the page is {path}")


def _has_display() -> bool:
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))

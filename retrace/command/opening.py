"""`retrace report --open`: shows the page in a browser."""

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
    """The format and the file of the page to show.

    Raises UsageError if another format was requested.
    """
    if format not in ("text", "html"):
        raise UsageError(f"--open shows the HTML page: leave out --format {format}")
    if output is not None and str(output) == "-":
        raise UsageError("--open needs a file: --output cannot be -")
    # Readable by the user only: the page contains what the recording contains.
    return "html", output or Path(tempfile.mkdtemp(prefix="retrace-")) / "report.html"


def show(path: Path) -> None:
    """Open the page in a browser, and print its path in any case."""
    path = path.absolute()
    browser = None
    # Without a display there are only text browsers, which would take over this terminal.
    if os.environ.get("BROWSER") or sys.platform != "linux" or _has_display():
        try:
            browser = webbrowser.get()
        except webbrowser.Error:
            pass
    if browser is not None and browser.open(path.as_uri()):
        console.say(f"opened {path}")
    else:
        console.say(f"found no browser; the page is {path}")


def _has_display() -> bool:
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))

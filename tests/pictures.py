"""Pictures of the real page and the real terminal, for the docs.

python -m tests.pictures    records examples/train_digits.py, and rewrites docs/pictures
"""

from __future__ import annotations

import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.process import COMMAND, HERE, environment

FOLDER = HERE / "docs" / "pictures"
NAMES = ("terminal.png", "page.png", "timeline.png", "source.png")
_COLUMNS = 92
_LINES = 34
_STYLES = {"1;31": "#ff7b72;font-weight:bold", "33": "#e3b341", "32": "#7ee787", "2": "#8b949e"}
_CODES = re.compile(r"\x1b\[([\d;]*)m(.*?)\x1b\[0m", re.DOTALL)


def made(recording: Path, program: Path, browser: Any, folder: Path) -> None:
    """Take all pictures.

    Args:
        recording: the recording to report.
        program: the folder that the program ran in.
        browser: a Chromium launched by playwright.
        folder: where to write the pictures.
    """
    page = folder / "page.html"
    report = [*COMMAND, "report", str(recording)]
    options: dict[str, Any] = {"cwd": program, "env": environment(COLUMNS=str(_COLUMNS))}
    subprocess.run([*report, "--format", "html", "-fo", str(page)], check=True, **options)
    _terminal(on_a_terminal(report, **options), browser, folder / "terminal.png")
    shown = browser.new_page(viewport={"width": 1100, "height": 760}, color_scheme="light")
    shown.goto(page.as_uri())
    shown.wait_for_selector("html[data-ready]", state="attached")
    shown.screenshot(path=folder / "page.png")
    for part in ("timeline", "source"):
        shown.locator(f"#{part}").evaluate("it => it.scrollIntoView()")
        shown.screenshot(path=folder / f"{part}.png")
    shown.close()
    page.unlink()


def on_a_terminal(command: list[str], **options: Any) -> str:
    """What a command writes if stdout is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, **options):
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # the end of a terminal on Linux
            pass
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def _terminal(text: str, browser: Any, file: Path) -> None:
    lines = text.splitlines()
    text = "\n".join(["$ retrace report", *lines[:_LINES]])
    shown = "".join(_painted(text))
    page = browser.new_page(viewport={"width": 760, "height": 300})
    page.set_content(
        "<style>body{margin:0;background:#14171a;color:#e4e7ea;display:inline-block}"
        f"pre{{margin:0;padding:14px 18px;font:13px/1.4 monospace}}</style><pre>{shown}</pre>"
    )
    page.locator("body").screenshot(path=file)
    page.close()


def _painted(text: str) -> list[str]:
    """Convert terminal codes to HTML colours."""
    out: list[str] = []
    at = 0
    for found in _CODES.finditer(text):
        style = _STYLES.get(found[1], "inherit;font-weight:bold")
        out += [html.escape(text[at : found.start()])]
        out += [f'<span style="color:{style}">{html.escape(found[2])}</span>']
        at = found.end()
    return [*out, html.escape(text[at:])]


def _main() -> None:
    from playwright.sync_api import sync_playwright

    program = HERE / "examples"
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as started:
        recording = Path(scratch) / "recording"
        subprocess.run(
            [*COMMAND, "run", "-q", "--out", str(recording), "train_digits.py"],
            cwd=program,
            env={**environment(), "PYTHONWARNINGS": "default"},
            stdout=sys.stderr,
            check=True,
        )
        FOLDER.mkdir(exist_ok=True)
        launched = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        made(recording, program, launched, FOLDER)
        launched.close()


if __name__ == "__main__":
    _main()

"""The pages of docs/causes as test cases: programs, what they must record, what retrace says.

python tests/cause_pages.py [CODE]...    rewrites the messages of the pages, and their index
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from retrace.causes import Cause
from retrace.present.glossary import CAUSES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "causes"
SCRIPT = "program.py"

_ROW = re.compile(r"^\| \[`.*\n", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADVICE = re.compile(r"^Advice: (.*)\.$", re.MULTILINE)
_MARK = re.compile(r"#\s*miss: (.*)$")
_MISS = re.compile(r"(?P<cause>[\w-]+)(?: at (?P<paths>.*?))?(?: \((?P<times>[\d,]+) times\))?")

Missed = tuple[int, str, tuple[str, ...]]
"""A line, the cause of a miss on it, and the paths of what changed."""


class Page(NamedTuple):
    """One page: a program that misses, what retrace says about it, and one that does not."""

    cause: Cause
    text: str
    programs: tuple[str, ...]
    message: str
    advice: frozenset[str]
    """The codes of the fixes that the page describes."""


def page(cause: Cause) -> Page:
    """Parse the page of a cause."""
    text = (FOLDER / f"{cause.value}.md").read_text()
    blocks = _BLOCK.findall(text)
    programs = tuple(body for language, body in blocks if language == "python")
    messages = [body for language, body in blocks if language == "text"]
    advice = _ADVICE.search(text)
    assert len(messages) == 1, f"{cause} has {len(messages)} messages"
    assert advice is not None, f"{cause} does not say which advice is given"
    return Page(cause, text, programs, messages[0], frozenset(re.findall("`([^`]+)`", advice[1])))


def marked(program: str) -> Counter[Missed]:
    """The misses that the comments of a program announce."""
    found: Counter[Missed] = Counter()
    for line, text in enumerate(program.splitlines(), 1):
        mark = _MARK.search(text)
        for announced in mark[1].split("; ") if mark else ():
            miss = _MISS.fullmatch(announced.strip())
            assert miss is not None, f"cannot read {text!r}"
            paths = tuple(sorted(miss["paths"].split(" and "))) if miss["paths"] else ()
            times = int(miss["times"].replace(",", "")) if miss["times"] else 1
            found[line, Cause(miss["cause"]).value, paths] += times
    return found


def reported(page: Page, report: dict[str, Any]) -> Counter[Missed]:
    """The misses in a report.

    First traces and the operations that create a program's arrays are left out, except on the
    pages about them.
    """
    quiet = {Cause.FIRST_TRACE.value, Cause.EAGER_OP.value} - {page.cause.value}
    found: Counter[Missed] = Counter()
    for miss in report["misses"]:
        if miss["cause"] in quiet:
            continue
        site = miss["call_site"]
        line = site["line"] if site is not None and Path(site["file"]).name == SCRIPT else 0
        paths = {change["path"] for change in miss["changes"]} - {None}
        found[line, miss["cause"], tuple(sorted(paths))] += 1
    return found


class Recorded(NamedTuple):
    """A program that has run under `retrace run`."""

    folder: Path

    def report(self) -> dict[str, Any]:
        """Return the output of `retrace report --format json`."""
        return json.loads(self._report("--format", "json"))

    def message(self, cause: Cause) -> str:
        """Return what `retrace report` prints about the misses of one cause."""
        _, _, body = self._report("--cause", cause.value, "--sort", "time").partition("\n\n")
        links = r"^  (more|cause) .*\n|\nabout each cause:.*\n(https.*\n)?"
        more = re.compile(links, re.MULTILINE)
        return more.sub("", body)

    def _report(self, *options: str) -> str:
        # In this process: the report imports no jax, and another interpreter would.
        from retrace.command.cli import main

        out = io.StringIO()
        argv = ["retrace", "report", "recording", *options]
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            mock.patch.object(sys, "argv", argv),
            mock.patch.dict(os.environ, {"COLUMNS": "80"}),
            contextlib.suppress(SystemExit),
        ):
            main()
        return out.getvalue()


def record(programs: tuple[str, ...], folder: Path) -> Iterator[Recorded]:
    """Run programs under `retrace run` in parallel, each in its own process and folder."""
    started: list[tuple[Path, subprocess.Popen[str]]] = []
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RETRACE", "JAX_", "XLA_"))
    }
    environment = {**kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    for number, program in enumerate(programs):
        own = folder / str(number)
        own.mkdir()
        (own / SCRIPT).write_text(program)
        command = [
            sys.executable,
            "-m",
            "retrace",
            "run",
            "--quiet",
            "--out",
            "recording",
            SCRIPT,
        ]
        started.append(
            (
                own,
                subprocess.Popen(
                    command,
                    cwd=own,
                    env=environment,
                    stderr=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                ),
            )
        )
    for own, process in started:
        _, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint
        yield Recorded(own)


_PLAIN = (
    (re.compile(r"(?:under )?[\d,.]+ s\b"), "T"),  # seconds
    (re.compile(r"[\d,]+(?= equations?)"), "N"),  # the number differs between JAX releases
    (re.compile(r"equations?"), "equations"),
    (re.compile(r"identical to that of .*? (?=fix|$)"), "identical "),
    (re.compile(r"\s+"), " "),  # lines wrap in other places
)


def plain(message: str) -> str:
    """A message without what differs between runs and between JAX releases."""
    for pattern, replacement in _PLAIN:
        message = pattern.sub(replacement, message)
    return message.strip()


def index(text: str) -> str:
    """The page that lists the causes, with what the cards say about each."""
    rows = "".join(
        f"| [`{cause.value}`]({cause.value}.md) | {CAUSES[cause]} |\n" for cause in Cause
    )
    before, *_, after = _ROW.split(text)
    return f"{before}{rows}{after}"


def rewrite(cause: Cause, folder: Path) -> None:
    """Write what retrace says today into a page."""
    case = page(cause)
    (recorded,) = record(case.programs[:1], folder)
    message = recorded.message(cause)
    report = recorded.report()
    print(f"== {cause.value}\n{message}")
    found = reported(case, report)
    if found != marked(case.programs[0]):
        print("found ", found, "\nmarked", marked(case.programs[0]))
    print(
        {
            miss["fix"] and miss["fix"]["code"]
            for miss in report["misses"]
            if miss["cause"] == cause.value
        }
    )
    text = case.text.replace(f"```text\n{case.message}```", f"```text\n{message}```")
    (FOLDER / f"{cause.value}.md").write_text(text)


if __name__ == "__main__":
    import tempfile

    (FOLDER / "README.md").write_text(index((FOLDER / "README.md").read_text()))
    for code in sys.argv[1:] or [cause.value for cause in Cause if cause is not Cause.UNKNOWN]:
        with tempfile.TemporaryDirectory() as name:
            rewrite(Cause(code), Path(name))

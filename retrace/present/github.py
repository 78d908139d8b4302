"""The dearest causes as annotations of GitHub Actions, on the lines that caused them."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping

from retrace.model import Verdict
from retrace.present.advice import advised
from retrace.present.group import Group
from retrace.present.message import heading
from retrace.present.missing import lost
from retrace.present.sentences import explanation
from retrace.present.tally import Tally, worth_telling
from retrace.present.view import View
from retrace.present.words import clean, count, seconds

_MOST = 10
"""So many annotations of one kind GitHub shows for a step."""


def report(view: View, tally: Tally | None = None, over: Mapping[str, str] | None = None) -> str:
    """One workflow command a line, the dearest cause first; a notice counts the others.

    Args:
        view: the whole recording.
        tally: the misses to tell of; None for all.
        over: what each miss exceeds, by its number: these are errors, and come first.
    """
    tally = tally or Tally.of(view)
    groups = tally.groups()
    loud, small = worth_telling(tally, groups)
    found = [*loud, *small]
    if over:
        # What is too much is told on a line of its own, but for what another cause tells as well.
        said = {(one.shown.miss.function.site, over.get(one.shown.miss.id)) for one in found}
        found += [one for one in groups if one.is_quiet and _exceeds(one, over, said)]
        found.sort(key=lambda one: one.shown.miss.id not in over)
    out = [f"::warning title=retrace::{_data(said)}" for said in lost(view)]
    out += [_annotation(view, group, over or {}) for group in found[: _MOST - len(out)]]
    if rest := found[_MOST - bool(view.losses()) :]:
        spent = seconds(sum(group.seconds for group in rest))
        said = f"and {count(len(rest), 'more cause')}, {spent}: `retrace report` lists them"
        out.append(f"::notice title=retrace::{_data(said)}")
    return "".join(f"{line}\n" for line in out)


def _exceeds(
    group: Group, over: Mapping[str, str], said: Container[tuple[str, str | None]]
) -> bool:
    miss = group.shown.miss
    return miss.id in over and (miss.function.site, over[miss.id]) not in said


def failed(command: str, why: str) -> str:
    """The workflow command of a command that ended without having found anything out."""
    said = "\n".join(clean(line, None) for line in why.splitlines())
    return f"::error title={_property(f'retrace {command}')}::{_data(said)}\n"


def _annotation(view: View, group: Group, over: Mapping[str, str]) -> str:
    verdict = group.shown
    limit = over.get(verdict.miss.id)
    file, line = place(verdict)
    at = ""
    if file is not None:
        at = f"file={_property(clean(_relative(file, view.bases[0]), None))},"
    if file is not None and line is not None:
        at += f"line={line},"
    said = [explanation(view, verdict), f"Cost: {seconds(group.seconds)}."]
    if verdict.fix is not None:
        said.append(f"Fix: {clean(advised(verdict.fix), 400)}")
    level, excess = ("error", f"{limit}: ") if limit else ("warning", "")
    title = f"retrace: {excess}{heading(view, group)}"
    told = _data(clean(" ".join(said), None))
    return f"::{level} {at}title={_property(clean(title, 200))}::{told}"


def place(verdict: Verdict) -> tuple[str | None, int | None]:
    """The file and line of the user's that a miss is shown at: its call, else its function."""
    site, function = verdict.miss.call_site, verdict.miss.function
    if site is not None and not site.in_library:
        return site.file, site.line
    return function.file, function.line


def _relative(file: str, here: str) -> str:
    # GitHub looks for the file from the folder of the checkout, wherever the command ran.
    for base in (os.environ.get("GITHUB_WORKSPACE"), here):
        if base and file.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(file, base)
    return file


def _data(text: str) -> str:
    text = text.replace("##[", "#\\x23[")  # an older form, which is obeyed anywhere in a line
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

"""The most expensive causes as GitHub Actions annotations on the lines that caused them."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping

from retrace.model import Verdict
from retrace.present.advice import advised
from retrace.present.group import Group
from retrace.present.message import heading
from retrace.present.missing import lost
from retrace.present.sentences import explanation
from retrace.present.tally import Tally, split_by_worth
from retrace.present.view import View
from retrace.present.words import clean, count, seconds

_MAX_ANNOTATIONS = 10
"""The number of annotations of one kind that GitHub shows for a step."""


def report(view: View, tally: Tally | None = None, over: Mapping[str, str] | None = None) -> str:
    """One workflow command per line, most expensive cause first; a notice counts the others.

    Args:
        view: the whole recording.
        tally: the misses to include; None for all.
        over: the limit that each miss exceeds, by its id: these are errors and come first.
    """
    tally = tally or Tally.of(view)
    groups = tally.groups()
    loud, small = split_by_worth(tally, groups)
    found = [*loud, *small]
    if over:
        # Each exceeded limit gets a line, unless another cause names the same one.
        said = {(one.shown.miss.function.site, over.get(one.shown.miss.id)) for one in found}
        found += [one for one in groups if one.is_quiet and _exceeds(one, over, said)]
        found.sort(key=lambda one: one.shown.miss.id not in over)
    out = [f"::warning title=retrace::{_data(said)}" for said in lost(view)]
    out += [
        _annotation(view, group, over or {}) for group in found[: _MAX_ANNOTATIONS - len(out)]
    ]
    if rest := found[_MAX_ANNOTATIONS - bool(view.losses()) :]:
        spent = seconds(sum(group.seconds for group in rest))
        said = f"and {count(len(rest), 'more cause')}, {spent}: `retrace report` lists them"
        out.append(f"::notice title=retrace::{_data(said)}")
    return "".join(f"{line}\n" for line in out)


def _exceeds(
    group: Group, over: Mapping[str, str], covered: Container[tuple[str, str | None]]
) -> bool:
    miss = group.shown.miss
    return miss.id in over and (miss.function.site, over[miss.id]) not in covered


def failed(command: str, why: str) -> str:
    """The workflow command for a command that failed before it found anything."""
    text = "\n".join(clean(line, None) for line in why.splitlines())
    return f"::error title={_property(f'retrace {command}')}::{_data(text)}\n"


def _annotation(view: View, group: Group, over: Mapping[str, str]) -> str:
    verdict = group.shown
    limit = over.get(verdict.miss.id)
    file, line = place(verdict)
    at = ""
    if file is not None:
        at = f"file={_property(clean(_relative(file, view.bases[0]), None))},"
    if file is not None and line is not None:
        at += f"line={line},"
    texts = [explanation(view, verdict), f"Cost: {seconds(group.seconds)}."]
    if verdict.fix is not None:
        texts.append(f"Fix: {clean(advised(verdict.fix), 1000)}")
    level, excess = ("error", f"{limit}: ") if limit else ("warning", "")
    title = f"retrace: {excess}{heading(view, group)}"
    text = _data(clean(" ".join(texts), None))
    return f"::{level} {at}title={_property(clean(title, 200))}::{text}"


def place(verdict: Verdict) -> tuple[str | None, int | None]:
    """The user's file and line to show a miss at: its call, or else its function."""
    site, function = verdict.miss.call_site, verdict.miss.function
    if site is not None and not site.in_library:
        return site.file, site.line
    return function.file, function.line


def _relative(file: str, here: str) -> str:
    # GitHub resolves files relative to the checkout, wherever the command ran.
    for base in (os.environ.get("GITHUB_WORKSPACE"), here):
        if base and file.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(file, base)
    return file


def _data(text: str) -> str:
    text = text.replace("##[", "#\\x23[")  # an older syntax, valid anywhere in a line
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

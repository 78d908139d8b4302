"""`retrace check`: checks recordings against budgets and the baseline."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retrace.causes import Cause
from retrace.command import console, github
from retrace.command.options import DONE, FOUND, WRONG
from retrace.command.selection import announced, one_of
from retrace.errors import CannotTellError, UsageError
from retrace.model import Kind, Recording

if TYPE_CHECKING:
    from retrace.guards.baseline import Baseline
    from retrace.guards.budget import Budget
    from retrace.guards.project import Project
    from retrace.present.view import View

_FORMATS = ("text", "github")
_MAX_NAMED = 4


def check(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings, read as one (default: the newest)."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Use this pyproject.toml (default: the nearest)."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="Output format.")
    ] = "text",
    update: Annotated[
        bool,
        typer.Option("--update", help="First update the baseline from the recording."),
    ] = False,
) -> int:
    """Check budgets and the baseline; exit 1 and explain what exceeds them.

    Budgets are in pyproject.toml, the baseline in retrace-baseline.toml next to it.

    Example:  retrace check .retrace/ci --format github
    """
    one_of("--format", format, _FORMATS)
    with github.failing(format, "check"):
        return _check(directories or [], config, format, update=update)


def _check(directories: list[Path], config: Path | None, format: str, *, update: bool) -> int:
    from retrace.guards import baseline, project
    from retrace.guards.config import budgets
    from retrace.guards.trust import doubt_of, never_imported_jax

    if not (here := console.here()):
        raise UsageError("the working directory no longer exists: change to another one")
    found = project.around(Path(here)) if config is None else project.read(config.absolute())
    limits, kept = budgets(found), baseline.load(found.baseline)
    compared = kept is not None and kept.programs is not None
    if not (limits or update or compared):
        raise UsageError(_nothing_to_check(found))
    view = _read(directories or [announced(_newest(found))])
    if never_imported_jax(view.recording):
        console.say("the program never imported jax: there is nothing to check")
        return DONE
    doubt = doubt_of(view.recording, programs=update or compared)
    if doubt is not None and update:
        raise CannotTellError(f"{doubt}; {found.baseline.name} was not changed")
    over = exceeded(view, limits)
    if update or compared:
        _check_baseline(
            view, found, kept or baseline.Baseline(), over, update=update, sure=doubt is None
        )
    if doubt is not None and not over.heads:
        raise CannotTellError(f"{doubt}{_UNTIL_THEN if view.verdicts else ''}")
    missing = unmatched(view, limits)
    unknown = [said for name, said in missing.items() if not limits[name].optional]
    for said in missing.values():
        console.say(said)
    if over.heads:
        _explain(view, over, [*over.heads, *unknown], format)
        if doubt is not None:
            console.say(str(doubt))
        return FOUND
    _say_held(len(limits), len(missing), view.recording, allowed=not unknown)
    if unknown:
        if format == "github":
            github.fail("check", "\n".join(unknown))
        return WRONG
    if format == "github":
        _explain(view, over, [], format)
    return DONE


_UNTIL_THEN = "; the recorded misses exceed no limit"


def _say_held(of: int, missing: int, recording: Recording, *, allowed: bool) -> None:
    """What held, and what may not have: a process that was not recorded."""
    for said in (_budgets_held(of, missing, allowed=allowed), _absent(recording)):
        if said:
            console.say(said)


def _budgets_held(of: int, missing: int, *, allowed: bool) -> str:
    if not of:
        return ""
    budgets = f"{of:,} budget{'s' if of > 1 else ''} held"
    if not missing:
        return budgets
    said = f"{of - missing:,} of {budgets}, {missing:,} never matched"
    return said if allowed else f"{said} (with `optional = true` a budget need not match)"


def _absent(recording: Recording) -> str:
    """That some processes of a job of `jax.distributed` were not recorded; mostly empty."""
    count = max((run.process_count or 0 for run in recording.runs), default=0)
    known = {run.process_index for run in recording.runs} & {*range(count)}
    if len(known) == count:
        return ""
    were = "was" if len(known) == 1 else "were"
    return (
        f"{len(known):,} of {count:,} processes of the job {were} recorded: the others may "
        "exceed a limit"
    )


def _explain(view: View, over: Exceeded, heads: list[str], format: str) -> None:
    """Explain what exceeds its limits; GitHub also gets a report if nothing does."""
    verdicts = [v for v in view.verdicts if v.miss.id in over.ids]
    if format == "github":
        from retrace.present.tally import Tally

        tally = Tally.of(view, verdicts)
        tally.among = len(view.verdicts)
        console.write(github.annotate(view, tally, over.ids, heads), None, commands=True)
        for head in over.heads:
            console.say(head)
    else:
        from retrace.present.guard import explanation

        width, _ = console.terminal(sys.stdout)
        console.write(f"{explanation(view, [*over.heads, *over.lines], verdicts, width)}\n", None)


def _nothing_to_check(found: Project) -> str:
    if found.file is None:
        return (
            "nothing to check against: no pyproject.toml with [tool.retrace] budgets here or in "
            f"a parent folder, and no {found.baseline.name} here; `retrace check --update` "
            "writes a baseline"
        )
    return (
        f'{found.file} has no budgets: add [tool.retrace.budgets."train_step"] with traces = 1, '
        f"or write a baseline, {found.baseline.name}, with `retrace check --update`"
    )


def _check_baseline(
    view: View, found: Project, kept: Baseline, over: Exceeded, *, update: bool, sure: bool
) -> None:
    """Compare with the baseline, or update it."""
    from retrace.guards.baseline import Names, difference, save
    from retrace.guards.drift import of_programs, update_note

    file = found.baseline
    names = Names(found.root, Path(console.here()))
    drift = of_programs(view, names, kept.programs, file.name)
    notes = drift.notes
    if update:
        before, kept.programs = kept.programs, drift.updated
        if kept.programs != before:
            save(file, kept)
        notes = [update_note(difference("programs", before or {}, kept.programs), file.name)]
    else:
        over.heads.extend(drift.heads)
        over.lines.extend(drift.lines)
        for verdict in drift.verdicts:
            over.ids.setdefault(verdict.miss.id, f"more than {file.name} has")
        if sure and not drift.heads:
            notes = [*notes, f"no misses beyond those in {file.name}"]
    for note in notes:
        first, _, lines = note.partition("\n")
        console.say(first)
        if lines:
            console.write(f"{lines}\n", None)


class Exceeded(NamedTuple):
    """What exceeds its budget or the baseline."""

    heads: list[str]
    lines: list[str]
    """The same, as a diff of the baseline."""
    ids: dict[str, str]
    """The misses that count, each with the exceeded limit in a few words."""


def exceeded(view: View, budgets: Mapping[str, Budget]) -> Exceeded:
    """What exceeds the budgets, which apply to each process separately."""
    from retrace.guards.budget import excesses

    heads: dict[str, None] = {}
    ids: dict[str, str] = {}
    for run in view.recording.runs if budgets else ():
        # Misses that a test's marker caused by making functions cold are that marker's business.
        verdicts = [
            verdict
            for verdict in view.verdicts
            if verdict.miss.run == run.id
            and not (verdict.miss.cold and verdict.cause is Cause.CACHE_CLEARED)
        ]
        for pattern, budget in budgets.items():
            for excess in excesses(view, verdicts, budget):
                heads[f'{excess.text} (budget "{pattern}")'] = None
                for verdict in excess.verdicts:
                    ids.setdefault(verdict.miss.id, excess.short)
    return Exceeded(list(heads), [], ids)


def unmatched(view: View, budgets: Mapping[str, Budget]) -> dict[str, str]:
    """A message for each budget whose pattern matches nothing in the recording."""
    from retrace.guards.budget import names
    from retrace.present.words import listed, nearest

    functions = {
        (one.site, one.name, one.jax_name): one
        for verdict in view.verdicts
        for one in (verdict.miss.function, *verdict.miss.bodies)
    }.values()
    said: dict[str, str] = {}
    for pattern, budget in budgets.items():
        if not budget.matches(*functions):
            guess = nearest(pattern, [name for f in functions for name in names(f)])
            if not guess and (seen := [f.name for f in functions if f.kind is not Kind.OP]):
                guess = f"; recorded: {listed(list(dict.fromkeys(seen)), _MAX_NAMED)}"
            said[pattern] = f'the budget "{pattern}" never matched{guess}'
    return said


def _newest(found: Project) -> Path:
    """The newest recording of this project; those in folders above belong to other programs."""
    from retrace.store.place import ROOT, nearest_root, newest

    root = nearest_root()
    is_own = found.file is None or root.absolute().parent.is_relative_to(found.root)
    return newest(root if is_own else ROOT)


def _read(directories: list[Path]) -> View:
    from retrace.inside.live import here
    from retrace.present.view import View
    from retrace.reason.verdict import judge
    from retrace.store.reader import read

    recording = read(directories)
    return View(recording, judge(recording), here())

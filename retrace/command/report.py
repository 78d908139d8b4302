"""`retrace report`: explains recorded misses, in one of several formats."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, assert_never, get_args

import typer

from retrace.command import completing, console, github, workers
from retrace.command.options import DONE, FOUND, Dask, Force, Output
from retrace.command.selection import Selection, at_last, one_of
from retrace.command.steps import steps_of
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.plan.step import Plan

Form: TypeAlias = Literal[
    "text", "json", "markdown", "html", "github", "sarif", "perfetto", "speedscope"
]
FORMATS: tuple[Form, ...] = get_args(Form)
SORTS = ("saving", "seconds", "count", "time")
_DEFAULT_TOP = 10
"""How many causes the text report explains by default."""


def report(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings, read as one (default: the newest)."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="Output format.",
            autocompletion=completing.among(*FORMATS),
        ),
    ] = "text",
    output: Output = None,
    force: Force = False,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="NAME",
            help="Only this function.",
            autocompletion=completing.functions,
        ),
    ] = None,
    cause: Annotated[
        str | None,
        typer.Option(
            "--cause", metavar="CODE", help="Only this cause.", autocompletion=completing.causes
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            metavar="|".join(SORTS),
            help="Sort order.",
            autocompletion=completing.among(*SORTS),
        ),
    ] = "seconds",
    top: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="N", min=0, help="Maximum number of causes (JSON: misses; text: 10)."
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            metavar="N",
            min=1,
            help="Limit the JSON to N tokens, for a language model.",
        ),
    ] = None,
    opened: Annotated[
        bool, typer.Option("--open", help="Open the page (--format html) in a browser.")
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Include the cache keys.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Include every attempt in DIR, not only the newest.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, help="Explain N processes in parallel."),
    ] = None,
    dask: Dask = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Leave out values, source lines and paths outside the project."
        ),
    ] = False,
    with_: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="PROFILE",
            help="With --format perfetto: add a jax.profiler trace.",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CODE",
            help="Exit 1 if this cause occurs; repeatable.",
            autocompletion=completing.causes,
        ),
    ] = None,
) -> int:
    """Explain recorded misses, most expensive first.

    Example:  retrace report --cause shape-changed --fail-on weak-type-changed
    """
    from retrace.causes import Cause

    codes = [code.value for code in Cause]
    asked = [("--cause", cause), *(("--fail-on", code) for code in fail_on or ())]
    form = one_of("--format", format, FORMATS)
    with github.failing(format, "report"):
        one_of("--sort", sort, SORTS)
        for option, code in asked:
            if code is not None:
                one_of(option, code, codes)
        if with_ is not None and format != "perfetto":
            raise UsageError("--with needs --format perfetto")
        if with_ is not None and redact:
            raise UsageError("a profile cannot be redacted: pass --with or --redact")
        workers.check(jobs, dask)
        if tokens is not None and format != "json":
            raise UsageError("--tokens needs --format json")
        if opened:
            from retrace.command import opening

            form, output = opening.page(form, output)
        selection = at_last(
            Selection(
                directories or [],
                function,
                cause,
                redact=redact,
                every=every,
                jobs=jobs,
                dask=dask,
            )
        )
        if earlier := selection.earlier:
            attempts = "attempt" if earlier == 1 else "attempts"
            console.say(
                f"{earlier:,} earlier {attempts} left out: pass --all to include every one"
            )
        if with_ is not None:
            from retrace.present import perfetto
            from retrace.store import profile

            text = perfetto.pieces(selection.view, selection.again(), profile.read(with_))
        else:
            text = _report(selection, form, sort, keys, output, top, tokens, fail_on or ())
        console.write(text, output, commands=form == "github", force=force)
        if opened and output is not None:
            from retrace.command import opening

            opening.show(output)
        causes = selection.tally.causes.items()
        failing = {cause: row.misses for cause, row in causes if cause.value in (fail_on or ())}
        if failing:
            found, count = ", ".join(cause.value for cause in failing), sum(failing.values())
            console.say(f"--fail-on matched {count:,} miss{'es' if count > 1 else ''}: {found}")
        return FOUND if failing else DONE


def _report(
    selection: Selection,
    form: Form,
    sort: Any,
    keys: bool,
    output: Path | None,
    top: int | None,
    tokens: int | None,
    fail_on: Sequence[str],
) -> str | Iterator[str]:
    view, tally = selection.view, selection.tally
    planned = tokens is not None or sort == "saving" or form in ("text", "markdown", "html")
    steps = steps_of(selection) if planned else None
    if steps is not None:
        tally.gather(view, steps)
        if sort == "saving" or tokens is not None:
            tally.follow(view, steps)
    elif sort == "saving":
        console.say("no plan for a selection or a large recording: sorted by seconds instead")
    match form:
        case "json":
            return _json(selection, sort, keys, top, tokens, steps)
        case "github":
            over = {
                group.shown.miss.id: f"--fail-on {group.cause.value}"
                for group in tally.groups()
                if group.cause.value in fail_on
            }
            return github.annotate(view, tally, over)
        case "sarif":
            from retrace import __version__
            from retrace.present import report_json, sarif

            return report_json.encode(sarif.report(view, tally, __version__))
        case "perfetto":
            from retrace.present import perfetto

            return perfetto.pieces(view, selection.again())
        case "speedscope":
            from retrace.present import speedscope

            return speedscope.report(view, selection.again())
        case "html":
            from retrace.present import page

            return page.report(
                view, tally, selection.again(), sort=sort, keys=keys, plan=steps, top=top
            )
        case "markdown":
            from retrace.present import markdown

            return markdown.report(view, tally, sort=sort, keys=keys, plan=steps, top=top)
        case "text":
            from retrace.present import terminal

            width, paint = console.terminal(sys.stdout, output)
            return terminal.report(
                view,
                tally,
                sort=sort,
                keys=keys,
                width=width,
                paint=paint,
                plan=steps,
                top=_DEFAULT_TOP if top is None else top,
            )
        case _:
            assert_never(form)


def _json(
    selection: Selection,
    sort: Any,
    keys: bool,
    top: int | None,
    tokens: int | None,
    steps: Plan | None,
) -> str | Iterator[str]:
    from retrace.present import extract, report_json

    view, tally = selection.view, selection.tally
    if tokens is not None:
        return report_json.encode(extract.extract(view, tally, steps, tokens, top))
    if selection.is_large and top is None:
        return report_json.pieces(view, tally, selection.again(), keys=keys)
    if top is not None:
        return report_json.encode(
            report_json.first(view, tally, selection.again(), sort, top, keys=keys)
        )
    return report_json.encode(report_json.report(view, selection.verdicts, keys=keys))

"""The command line: parses, calls, sets the exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
import typer.core

from retrace.command import (
    agents,
    audits,
    clean,
    commands,
    completing,
    console,
    exporting,
    importing,
)
from retrace.command import slow as slow_
from retrace.command.complaint import usage
from retrace.command.diff import diff
from retrace.command.hosts import hosts
from retrace.command.plan import plan
from retrace.command.selection import Told, at_last, found_miss, one_of, read_at_last
from retrace.command.steps import steps_of
from retrace.command.watch import watch
from retrace.doctor.command import doctor
from retrace.errors import RetraceError, UsageError
from retrace.guards import check

if TYPE_CHECKING:
    from retrace.command.anew import Program

DONE = commands.DONE
FOUND = 1
"""A check found what it was told to find."""
WRONG = 2
"""Wrong usage, or input that cannot be read."""

FORMATS = ("text", "json", "markdown", "html", "github", "sarif", "perfetto", "speedscope")
_EXPLAINED = 10
"""So many causes are explained in text, where nothing else is asked for."""
SORTS = ("saving", "seconds", "count", "time")

# The wrong usage that the parser finds; typer names it in no public place of all its releases.
_Complaint: type[Exception] = typer.BadParameter.__mro__[2]

# Markup off: help is plain text in a pipe as on a terminal, and rich is never loaded.
_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


class RunCommand(typer.core.TyperCommand):
    """`run`, whose own options end where `python` ends its own: after `-m MODULE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args`, with the program's own options left to the program."""
        return super().parse_args(ctx, own_options_ended(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command in its usage line."""
        return ["[OPTIONS]", "SCRIPT|-m MODULE", "[ARGS]..."]


_WITH_VALUE = ("--out", "-o", "--job", "--audit-every", "--redact-key", "--slow-over")
"""Options of `run` that are followed by a value."""


def own_options_ended(args: Sequence[str]) -> list[str]:
    """The arguments of `run` with `--` behind the module, where there is one."""
    position = 0
    while position < len(args):
        option = args[position]
        if option == "--" or not option.startswith("-") or option == "-":
            break
        short = option[1:] if not option.startswith("--") else ""
        # As in `-m MODULE`, `-mMODULE` and `-qm MODULE`.
        before, module, rest = short.partition("m")
        if module and set(before) <= set("qf"):
            position += 1 if rest else 2
            return [*args[:position], "--", *args[position:]]
        position += 2 if option in _WITH_VALUE else 1
    return list(args)


def _version(wanted: bool) -> None:
    if wanted:
        from retrace import __version__

        typer.echo(f"retrace {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def retrace(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Why JAX traces and compiles your functions again, what it costs, what to do.

    Example:  retrace run train.py
    """
    if context.invoked_subcommand is None and not version:
        typer.echo(context.get_help())


Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to stdout."),
]
Force = commands.Force


@app.command(
    cls=RunCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
def run(
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCRIPT ARGS", help="The script and its arguments."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option("-m", metavar="MODULE", help="Run a module, as `python -m` does."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Where to record; a new one under .retrace/ otherwise.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace what DIR holds.")] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Join the newest attempt that DIR holds.")
    ] = False,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Record no values, no source, no paths outside."),
    ] = False,
    redact_key: Annotated[
        Path | None,
        typer.Option(
            "--redact-key",
            metavar="FILE",
            help="As --redact, under a key that the processes of a job share.",
        ),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Record the Python processes that it starts, too.")
    ] = False,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="NAME",
            help="The job it is part of; else the scheduler tells.",
        ),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option("--audit", help="At the end, trace functions anew: which are out of date?"),
    ] = False,
    audit_every: Annotated[
        str | None,
        typer.Option("--audit-every", metavar="N|Ns", help="Also every N misses, or seconds."),
    ] = None,
    audit_all: Annotated[
        bool, typer.Option("--audit-all", help="Trace anew what writes globals, too.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Show what is compiling, on the terminal's last line."),
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="Record where the seconds of slow misses go.")
    ] = False,
    slow_over: Annotated[
        float | None,
        typer.Option("--slow-over", metavar="SECONDS", help="Slow from here on (default: 5)."),
    ] = None,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Count every call: each takes JAX's slow path, some 30 to 250 µs more.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary at the end.")] = False,
) -> Callable[[], int]:
    """Run a program unchanged, record each miss, close with a summary.

    Examples:  retrace run train.py --epochs 3;  retrace run -m package.train
    """
    arguments = program or []
    if module is None and not arguments:
        raise UsageError(
            "no program to run: name a script, as in `retrace run train.py`, or -m MODULE"
        )
    if force and append:
        raise UsageError("--force replaces and --append keeps: pass one of them")
    if redact_key is not None:
        from retrace.store.redaction import read_key

        read_key(redact_key)
        os.environ["RETRACE_REDACT_KEY"] = str(redact_key.absolute())
    if redact or redact_key is not None:
        # By the environment, so that it holds for what the program starts as well.
        os.environ["RETRACE_REDACT"] = "1"
    slow_.ask(slow=slow, over=slow_over)
    if count:
        os.environ["RETRACE_COUNT"] = "1"
    audits.ask(end=audit, every=audit_every, effects=audit_all)
    kept = _Kept(out, force=force, append=append, children=children, job=job, live=live)
    return lambda: _launch(arguments, module, kept, quiet=quiet)


@app.command()
def report(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Recordings, read as one; the newest otherwise."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="How to write it.",
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
            help="What comes first.",
            autocompletion=completing.among(*SORTS),
        ),
    ] = "seconds",
    top: Annotated[
        int | None,
        typer.Option("--top", min=0, help="So many causes (JSON: misses), 10 in text."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens", metavar="N", min=1, help="JSON of so many tokens, for a language model."
        ),
    ] = None,
    opened: Annotated[
        bool, typer.Option("--open", help="Show the page (--format html) in a browser.")
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Write out the cache keys.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every attempt in DIR, not the newest alone.")
    ] = False,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Tell no values, no source, no paths outside."),
    ] = False,
    with_: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="PROFILE",
            help="With perfetto: on one time with what jax.profiler wrote.",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CODE",
            help="Exit 1 where this cause occurs; repeatable.",
            autocompletion=completing.causes,
        ),
    ] = None,
) -> int:
    """Explain recorded misses, most expensive first.

    Example:  retrace report --cause shape-changed --fail-on weak-type-changed
    """
    from retrace.causes import Cause

    codes = [code.value for code in Cause]
    one_of("--format", format, FORMATS)
    one_of("--sort", sort, SORTS)
    for option, code in (("--cause", cause), *(("--fail-on", code) for code in fail_on or ())):
        if code is not None:
            one_of(option, code, codes)
    if with_ is not None and format != "perfetto":
        raise UsageError("--with needs --format perfetto")
    if with_ is not None and redact:
        raise UsageError("a profile cannot be redacted: pass --with or --redact")
    if tokens is not None and format != "json":
        raise UsageError("--tokens bounds the JSON for a language model: add --format json")
    form = format
    if opened:
        from retrace.command import opening

        form, output = opening.page(format, output)
    told = at_last(Told(directories or [], function, cause, redact=redact, every=every))
    if earlier := told.earlier:
        were = "attempt lies" if earlier == 1 else "attempts lie"
        console.say(f"{earlier:,} earlier {were} there too: --all explains every one")
    if with_ is not None:
        from retrace.present import perfetto
        from retrace.store import profile

        text = perfetto.pieces(told.view, told.again(), profile.read(with_))
    else:
        text = _report(told, form, sort, keys, output, top, tokens)
    console.write(text, output, commands=form == "github", force=force)
    if opened and output is not None:
        from retrace.command import opening

        opening.show(output)
    causes = told.tally.causes.items()
    failing = {cause: row.misses for cause, row in causes if cause.value in (fail_on or ())}
    if failing:
        found = ", ".join(cause.value for cause in failing)
        console.say(f"found what --fail-on names, {sum(failing.values()):,} times: {found}")
    return FOUND if failing else DONE


app.command()(check.check)


@app.command()
def show(
    miss: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="An id, its beginning, or a label: 'train_step #3'.",
            autocompletion=completing.misses,
        ),
    ],
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recording; the newest otherwise.")
    ] = None,
    program: Annotated[
        bool,
        typer.Option("--program", help="The whole key, and what differs in the program."),
    ] = False,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json", help="How to write it.")
    ] = "text",
    output: Output = None,
    force: Force = False,
) -> int:
    """Show one miss: where, why, what changed in its key, what to do.

    Example:  retrace show 'train_step #3'
    """
    one_of("--format", format, ("text", "json"))
    view = read_at_last([] if directory is None else [directory])
    verdict = found_miss(view, miss)
    if format == "json":
        from retrace.present import machine

        text = machine.encode(machine.show(view, verdict))
    else:
        from retrace.present.miss import show as shown

        width, paint = console.terminal(sys.stdout, output)
        text = shown(view, verdict, width=width, paint=paint, program=program)
        if output is not None:
            text = f"retrace: miss {verdict.miss.id}\n\n{text}"
    console.write(text, output, force=force)
    return DONE


app.command()(plan)
app.command()(commands.programs)
app.command()(diff)
app.command()(hosts)
app.command()(watch)
app.command()(slow_.slow)
app.command()(audits.audit)
app.command("import")(importing.import_)
app.command()(exporting.export)
app.command()(agents.mcp)
app.command()(doctor)
app.command()(clean.clean)


def main() -> NoReturn:
    """Run the command line of this process, and exit."""
    if os.environ.get("RETRACE") == "1":
        from retrace.inside.live import dismiss

        dismiss()
    try:
        # typer is done before a program is launched: its handling of interrupts and
        # of errors would stand between the program and the interpreter.
        result: int | Callable[[], int] = app(prog_name="retrace", standalone_mode=False)
        code = result() if callable(result) else result
    except RetraceError as error:
        code = _wrong(str(error))
    except _Complaint as error:
        code = _wrong(usage(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if os.environ.get("RETRACE_DEBUG"):
            raise
        code = _wrong(_bug(error))
    sys.exit(code or DONE)


def _bug(error: Exception) -> str:
    """What to say where a command itself fails."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = (
        "" if at is None else f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
    )
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"this is a bug in retrace ({said:.200}{place}): please report it with the traceback, "
        "which the same command shows under RETRACE_DEBUG=1"
    )


class _Kept(NamedTuple):
    """What `run` is told of the recording."""

    out: Path | None
    force: bool
    append: bool
    children: bool
    job: str | None
    live: bool


def _launch(arguments: list[str], module: str | None, kept: _Kept, *, quiet: bool) -> int:
    from retrace.command import anew

    gc.enable()
    program = anew.Program(arguments, module)
    options = anew.options()
    anew.find(program)
    if options is None:
        return _launch_here(program, kept, quiet=quiet)
    told: dict[str, str] = {}
    if (directory := _directory(kept)) is not None:
        new = kept.out is None
        told = anew.told(directory, new=new, children=kept.children, quiet=quiet)
        _live(directory, kept)
    return anew.start(options, program, told)


def _launch_here(program: Program, kept: _Kept, *, quiet: bool) -> int:
    """Run a program in this process, below frames of ours, where it cannot have its own."""
    from retrace.apart import Apart
    from retrace.command import launch, within
    from retrace.store.attempts import attempt_of

    arguments, module = program
    apart = Apart(sys.path[1:])

    def before() -> None:
        if (directory := _directory(kept)) is not None:
            new = kept.out is None
            within.record(
                str(directory),
                attempt_of(directory),
                apart,
                new=new,
                all_of_them=kept.children,
                quiet=quiet,
            )
            _live(directory, kept)
        apart.give_way(sys.path[0])

    if module is not None:
        return launch.run_module(module, arguments, before)
    if arguments[0] == "-":
        return launch.run_input(arguments[1:], before)
    return launch.run_script(arguments[0], arguments[1:], before)


def _live(directory: Path, kept: _Kept) -> None:
    if kept.live:
        from retrace.command import live
        from retrace.store.attempts import attempt_of

        live.begin(directory, attempt_of(directory).number)


def _directory(kept: _Kept) -> Path | None:
    """Where to record, made; None where nothing is to be recorded."""
    if os.environ.get("RETRACE") == "0":
        return None
    from retrace.store.place import create

    out = kept.out
    if out is None and (named := os.environ.get("RETRACE_DIR")):
        out = Path(named)
    return create(out, force=kept.force, append=kept.append, job=kept.job)


def _wrong(text: str) -> int:
    console.say(text)
    return WRONG


def _report(
    told: Told,
    format: str,
    sort: Any,
    keys: bool,
    output: Path | None,
    top: int | None,
    tokens: int | None,
) -> str | Iterator[str]:
    view, tally = told.view, told.tally
    planned = tokens is not None or sort == "saving" or format in ("text", "markdown", "html")
    steps = steps_of(told) if planned else None
    if sort == "saving":
        if steps is None:
            console.say("no plan is made of a part or of a large recording: sorted by seconds")
        else:
            tally.follow(view, steps)
    if format == "json":
        from retrace.present import extract, machine

        if tokens is not None:
            if steps is not None:
                tally.follow(view, steps)
            return machine.encode(extract.extract(view, tally, steps, tokens, top))
        if told.is_large and top is None:
            return machine.pieces(view, tally, told.again(), keys=keys)
        if top is not None:
            return machine.encode(machine.first(view, tally, told.again(), sort, top, keys=keys))
        return machine.encode(machine.report(view, told.verdicts, keys=keys))
    if format == "github":
        return check.to_github(view, tally)
    if format == "sarif":
        from retrace import __version__
        from retrace.present import machine, sarif

        return machine.encode(sarif.report(view, tally, __version__))
    if format == "perfetto":
        from retrace.present import perfetto

        return perfetto.pieces(view, told.again())
    if format == "speedscope":
        from retrace.present import speedscope

        return speedscope.report(view, told.again())
    if format == "html":
        from retrace.present import page

        return page.report(view, tally, told.again(), sort=sort, keys=keys, plan=steps, top=top)
    if format == "markdown":
        from retrace.present import markdown

        return markdown.report(view, tally, sort=sort, keys=keys, plan=steps, top=top)
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
        top=_EXPLAINED if top is None else top,
    )

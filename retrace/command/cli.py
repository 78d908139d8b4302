"""The command line: parses, calls, sets the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from retrace.command import agents, audits, clean, console, exporting, importing
from retrace.command.complaint import usage
from retrace.command.diff import diff
from retrace.command.hosts import hosts
from retrace.command.options import DONE, WRONG
from retrace.command.plan import plan
from retrace.command.programs import programs
from retrace.command.report import report
from retrace.command.run import RunCommand, run
from retrace.command.show import show
from retrace.command.slow import slow
from retrace.command.watch import watch
from retrace.doctor.command import doctor
from retrace.errors import RetraceError
from retrace.guards import check

# The wrong usage that the parser finds; typer names it in no public place of all its releases.
_Complaint: type[Exception] = typer.BadParameter.__mro__[2]

# Markup off: help is plain text in a pipe as on a terminal, and rich is never loaded.
_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


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


app.command(
    cls=RunCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)(run)
app.command()(report)
app.command()(check.check)
app.command()(show)

app.command()(plan)
app.command()(programs)
app.command()(diff)
app.command()(hosts)
app.command()(watch)
app.command()(slow)
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


def _wrong(text: str) -> int:
    console.say(text)
    return WRONG

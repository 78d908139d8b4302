"""The command line: parses, calls, sets the exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any, NoReturn, cast

import typer
import typer.core

from retrace.command import console
from retrace.command.options import DONE, WRONG
from retrace.errors import RetraceError

_COMMANDS = {
    "run": "retrace.command.run",
    "report": "retrace.command.report",
    "check": "retrace.guards.check",
    "show": "retrace.command.show",
    "plan": "retrace.command.plan",
    "programs": "retrace.command.programs",
    "diff": "retrace.command.diff",
    "hosts": "retrace.command.hosts",
    "watch": "retrace.command.watch",
    "slow": "retrace.command.slow",
    "audit": "retrace.command.audits",
    "import": "retrace.command.importing",
    "export": "retrace.command.exporting",
    "mcp": "retrace.command.agents",
    "doctor": "retrace.doctor.command",
    "clean": "retrace.command.clean",
}
"""The module of each command; it defines a function of that name. Only the requested one is
imported: importing all of them takes as long as explaining a small recording."""
# The parser's usage error, which has no public name in some releases of typer.
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]

_HELP = {"help_option_names": ["-h", "--help"]}

_MIN_PARSER_WIDTH = 50
"""Columns. typer makes help at least this wide, so narrower terminals would break each line."""


class _Commands(typer.core.TyperGroup):
    """The command group; its list shows each description in full (typer would truncate it)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands before the command."""
        for one in cast("list[Any]", self.get_params(ctx)):
            _take_text(one)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, its arguments shown in help without their Python types."""
        found: Any = super().get_command(ctx, cmd_name)
        if found is not None:
            for one in found.get_params(ctx):
                _take_text(one)
                if one.param_type_name == "argument":
                    one.display_type_rich = _no_type
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(1000)) for name, one in found if one is not None]
            )


_TEXT: dict[Any, Callable[[Any], Any]] = {
    str: str,
    Path: Path,
    list[str]: list,
    list[Path]: lambda given: [Path(one) for one in given],
}
"""What becomes of the text typed for a parameter, by its type."""


def _take_text(parameter: Any) -> None:
    """Let a parameter take text without typer's conversion, and nothing if nothing was typed.

    typer converts all values by pydantic, also those that are text or were not given. Importing
    pydantic takes as long as everything else that a small command does.
    """
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if kind is None or parameter.required or "process_value" in vars(parameter):
        return
    convert = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None:
            taken = () if parameter.multiple or parameter.nargs == -1 else None
        elif kind in _TEXT:
            taken = _TEXT[kind](value)
        else:
            return convert(ctx, value)
        return taken if parameter.callback is None else parameter.callback(ctx, parameter, taken)

    parameter.process_value = process_value


def _no_type(ctx: object) -> str:  # noqa: ARG001
    return ""


def _narrow() -> dict[str, int]:
    """The width setting for help on terminals narrower than typer assumes."""
    columns = get_terminal_size().columns
    return {"terminal_width": max(columns, 30) - 2} if columns < _MIN_PARSER_WIDTH + 2 else {}


def application(names: Iterable[str] = tuple(_COMMANDS)) -> typer.Typer:
    """The command line with these commands."""
    made = typer.Typer(
        cls=_Commands,
        rich_markup_mode=None,  # plain help everywhere, and rich is never loaded
        pretty_exceptions_enable=False,
        context_settings={**_HELP, **_narrow()},
    )
    made.callback(invoke_without_command=True)(retrace)
    for name in names:
        module = import_module(_COMMANDS[name])
        # `import` cannot be a function's name.
        called = getattr(module, name, None) or getattr(module, f"{name}_")
        made.command(name, **getattr(module, "AS_COMMAND", {}))(called)
    return made


def _version(wanted: bool) -> None:
    if wanted:
        from retrace import __version__

        typer.echo(f"retrace {__version__}")
        raise typer.Exit


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


def _requested() -> Iterable[str]:
    """The requested command; all of them for help and shell completion."""
    first = sys.argv[1:2]
    return first if first and first[0] in _COMMANDS else tuple(_COMMANDS)


def main() -> NoReturn:
    """Run this process's command line and exit."""
    if os.environ.get("RETRACE") == "1":
        from retrace.inside.live import dismiss

        dismiss()
    try:
        # typer finishes before a program is launched; otherwise its handling of interrupts
        # and errors would come between the program and the interpreter.
        result: int | Callable[[], int] = application(_requested())(
            prog_name="retrace", standalone_mode=False
        )
        code = result() if callable(result) else result
    except RetraceError as error:
        code = _wrong(str(error))
    except _ParserError as error:
        from retrace.command.complaint import usage

        code = _wrong(usage(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        console.silence()
        code = DONE
    except Exception as error:
        if os.environ.get("RETRACE_DEBUG"):
            raise
        code = _wrong(_unwritable(error) or _bug(error))
    sys.exit(code or DONE)


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""Errors of a stream that was redirected to a full disk, or closed."""


def _unwritable(error: Exception) -> str:
    """What to say if stdout cannot be written to; else an empty text."""
    if not isinstance(error, OSError) or error.errno not in _UNWRITABLE or error.filename:
        return ""
    console.silence()
    return f"cannot write to standard output: {error.strerror}"


def _bug(error: Exception) -> str:
    """The message when a command itself fails."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = (
        "" if at is None else f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
    )
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"this is a bug in retrace ({said:.200}{place}): please report it with the traceback "
        "that the same command shows with RETRACE_DEBUG=1"
    )


def _wrong(text: str) -> int:
    console.say(text)
    return WRONG

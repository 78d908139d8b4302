"""`retrace run`: run a program unchanged and record it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
import typer.core

from retrace.command import audits
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.command.own_interpreter import Program


class RunCommand(typer.core.TyperCommand):
    """The `run` command; its own options end after `-m MODULE`, as those of `python` do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args`, leaving the program's options to the program."""
        return super().parse_args(ctx, own_options_ended(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments in the usage line."""
        return ["[OPTIONS]", "SCRIPT|-m MODULE", "[ARGS]..."]


AS_COMMAND: dict[str, Any] = {
    "cls": RunCommand,
    "context_settings": {"ignore_unknown_options": False, "allow_interspersed_args": False},
}
"""How typer registers the command."""

_DEFAULT_SLOW_SECONDS = 5.0

_WITH_VALUE = (
    "--out",
    "-o",
    "--job",
    "--audit-every",
    "--audit-seconds",
    "--audit-total",
    "--redact-key",
    "--slow-over",
)
"""Options of `run` that take a value."""


def own_options_ended(args: Sequence[str]) -> list[str]:
    """The arguments of `run`, with `--` inserted after `-m MODULE` if it is given."""
    position = 0
    while position < len(args):
        option = args[position]
        if option == "--" or not option.startswith("-") or option == "-":
            break
        short = option[1:] if not option.startswith("--") else ""
        # `-m MODULE`, `-mMODULE` or `-qm MODULE`.
        before, module, rest = short.partition("m")
        if module and set(before) <= set("qf"):
            position += 1 if rest else 2
            return [*args[:position], "--", *args[position:]]
        position += 2 if option in _WITH_VALUE else 1
    return list(args)


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
            help="Where to record, also s3://... (default: a new folder in .retrace/).",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the contents of DIR.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Join the newest attempt in DIR.")
    ] = False,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Record no values, source lines or paths outside the project."
        ),
    ] = False,
    redact_key: Annotated[
        Path | None,
        typer.Option(
            "--redact-key",
            metavar="FILE",
            help="Like --redact, with a key shared by the processes of a job.",
        ),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Also record the Python processes it starts.")
    ] = False,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="NAME",
            help="Name of the job (default: from the scheduler).",
        ),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option("--audit", help="At the end, find compiled functions that are out of date."),
    ] = False,
    audit_every: Annotated[
        str | None,
        typer.Option(
            "--audit-every", metavar="N|Ns", help="Also audit every N misses or seconds."
        ),
    ] = None,
    audit_all: Annotated[
        bool, typer.Option("--audit-all", help="Also audit functions that write globals.")
    ] = False,
    audit_seconds: Annotated[
        float | None,
        typer.Option(
            "--audit-seconds",
            metavar="SECONDS",
            help="Time limit of an audit per function (default: 10).",
        ),
    ] = None,
    audit_total: Annotated[
        float | None,
        typer.Option(
            "--audit-total",
            metavar="SECONDS",
            help="Time limit of an audit for all functions (default: 60).",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Show what is compiling on the terminal's last line."),
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="Record where slow misses spend their time.")
    ] = False,
    slow_over: Annotated[
        float | None,
        typer.Option(
            "--slow-over", metavar="SECONDS", help="How long a slow miss takes (default: 5)."
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Count every call (makes each call 30 to 250 µs slower).",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary at the end.")] = False,
) -> Callable[[], int]:
    """Run a program unchanged, record each miss, end with a summary.

    Examples:  retrace run train.py --epochs 3;  retrace run -m package.train
    """
    arguments = program or []
    if module is None and not arguments:
        raise UsageError(
            "no program to run: name a script, as in `retrace run train.py`, or -m MODULE"
        )
    if force and append:
        raise UsageError("--force replaces the recording and --append keeps it: pass only one")
    if redact_key is not None:
        from retrace.store.redaction import read_key

        read_key(redact_key)
        os.environ["RETRACE_REDACT_KEY"] = str(redact_key.absolute())
    if redact or redact_key is not None:
        # Through the environment, so that processes started by the program inherit it.
        os.environ["RETRACE_REDACT"] = "1"
    _observe_slow(slow=slow, over=slow_over)
    if count:
        os.environ["RETRACE_COUNT"] = "1"
    audits.ask(
        end=audit,
        every=audit_every,
        effects=audit_all,
        seconds=audit_seconds,
        total=audit_total,
    )
    given = _Options(out, force=force, append=append, children=children, job=job, live=live)
    return lambda: _launch(arguments, module, given, quiet=quiet)


def _observe_slow(*, slow: bool, over: float | None) -> None:
    """Tell the program and the processes it starts how long a slow miss takes."""
    if over is not None and not 0 < over < 1e6:
        raise UsageError(f"--slow-over must be more than 0 seconds, not {over:g}")
    if slow or over is not None:
        # Through the environment, so that processes started by the program inherit it.
        os.environ["RETRACE_SLOW"] = str(over or _DEFAULT_SLOW_SECONDS)


class _Options(NamedTuple):
    """The options that say how to record."""

    out: Path | None
    force: bool
    append: bool
    children: bool
    job: str | None
    live: bool


def _launch(arguments: list[str], module: str | None, given: _Options, *, quiet: bool) -> int:
    from retrace.command import own_interpreter

    gc.enable()
    program = own_interpreter.Program(arguments, module)
    options = own_interpreter.options()
    own_interpreter.find(program)
    if options is None:
        return _launch_here(program, given, quiet=quiet)
    settings: dict[str, str] = {}
    if (place := _place(given)) is not None:
        settings = own_interpreter.settings(
            place.directory,
            new=place.new,
            children=given.children,
            quiet=quiet,
            sent_to=place.sent_to,
        )
        _live(place.directory, given)
    return own_interpreter.start(options, program, settings)


def _launch_here(program: Program, given: _Options, *, quiet: bool) -> int:
    """Run a program in this process, below our frames, if it cannot have its own interpreter."""
    from retrace.apart import Apart
    from retrace.command import launch, within
    from retrace.store.attempts import attempt_of

    arguments, module = program
    apart = Apart(sys.path[1:])

    def before() -> None:
        if (place := _place(given)) is not None:
            within.record(
                str(place.directory),
                attempt_of(place.directory),
                apart,
                new=place.new,
                all_of_them=given.children,
                quiet=quiet,
                sent_to=place.sent_to,
            )
            _live(place.directory, given)
        apart.give_way(sys.path[0])

    if module is not None:
        return launch.run_module(module, arguments, before)
    if arguments[0] == "-":
        return launch.run_input(arguments[1:], before)
    return launch.run_script(arguments[0], arguments[1:], before)


def _live(directory: Path, given: _Options) -> None:
    if given.live:
        from retrace.command import live
        from retrace.store.attempts import attempt_of

        live.begin(directory, attempt_of(directory).number)


class _Place(NamedTuple):
    """Where a program is recorded."""

    directory: Path
    new: bool
    """Whether the directory was created for this program and is found without naming it."""
    sent_to: str | None = None
    """Address of the object store that the recording is sent to."""


def _place(given: _Options) -> _Place | None:
    """Create the directory to record into; None if nothing is to be recorded."""
    if os.environ.get("RETRACE") == "0":
        return None
    from retrace.store.place import create
    from retrace.store.remote import address_of

    out = given.out
    if out is None and (named := os.environ.get("RETRACE_DIR")):
        out = Path(named)
    address = None if out is None else address_of(out)
    if address is None:
        new = given.out is None
        return _Place(create(out, force=given.force, append=given.append, job=given.job), new)
    if given.force:
        raise UsageError(f"--force only empties local folders: choose another than {address}")
    from retrace.store import sending
    from retrace.store.attempts import known_job
    from retrace.store.place import create_own, discard

    directory = create_own()
    try:
        sending.begin(address, directory, known_job(given.job), append=given.append)
    except UsageError:
        discard(directory)
        raise
    return _Place(directory, True, address)

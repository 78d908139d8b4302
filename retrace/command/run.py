"""`retrace run`: a program as it is, under recording."""

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
from retrace.command import slow as slow_
from retrace.errors import UsageError

if TYPE_CHECKING:
    from retrace.command.anew import Program


class RunCommand(typer.core.TyperCommand):
    """`run`, whose own options end where `python` ends its own: after `-m MODULE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args`, with the program's own options left to the program."""
        return super().parse_args(ctx, own_options_ended(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command in its usage line."""
        return ["[OPTIONS]", "SCRIPT|-m MODULE", "[ARGS]..."]


AS_COMMAND: dict[str, Any] = {
    "cls": RunCommand,
    "context_settings": {"ignore_unknown_options": False, "allow_interspersed_args": False},
}
"""How typer is told of it."""

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
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace what DIR holds.")] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Join the newest attempt in DIR.")
    ] = False,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Record no values, no source lines, no outside paths."),
    ] = False,
    redact_key: Annotated[
        Path | None,
        typer.Option(
            "--redact-key",
            metavar="FILE",
            help="As --redact, with a key shared by the processes of a job.",
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
            help="The job it is part of (default: from the scheduler).",
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
            help="An audit's limit per function (default: 10).",
        ),
    ] = None,
    audit_total: Annotated[
        float | None,
        typer.Option(
            "--audit-total", metavar="SECONDS", help="Its limit for all functions (default: 60)."
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Show what is compiling, on the terminal's last line."),
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="Record where the seconds of slow misses go.")
    ] = False,
    slow_over: Annotated[
        float | None,
        typer.Option(
            "--slow-over", metavar="SECONDS", help="Misses from this long are slow (default: 5)."
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Count every call, which makes each 30 to 250 µs slower.",
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
    audits.ask(
        end=audit,
        every=audit_every,
        effects=audit_all,
        seconds=audit_seconds,
        total=audit_total,
    )
    kept = _Kept(out, force=force, append=append, children=children, job=job, live=live)
    return lambda: _launch(arguments, module, kept, quiet=quiet)


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
    if (place := _place(kept)) is not None:
        told = anew.told(
            place.directory,
            new=place.new,
            children=kept.children,
            quiet=quiet,
            sent_to=place.sent_to,
        )
        _live(place.directory, kept)
    return anew.start(options, program, told)


def _launch_here(program: Program, kept: _Kept, *, quiet: bool) -> int:
    """Run a program in this process, below frames of ours, where it cannot have its own."""
    from retrace.apart import Apart
    from retrace.command import launch, within
    from retrace.store.attempts import attempt_of

    arguments, module = program
    apart = Apart(sys.path[1:])

    def before() -> None:
        if (place := _place(kept)) is not None:
            within.record(
                str(place.directory),
                attempt_of(place.directory),
                apart,
                new=place.new,
                all_of_them=kept.children,
                quiet=quiet,
                sent_to=place.sent_to,
            )
            _live(place.directory, kept)
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


class _Place(NamedTuple):
    """Where a program is recorded."""

    directory: Path
    new: bool
    """Whether it was made for this program alone, and is found without its name."""
    sent_to: str | None = None
    """The address of an object store to which all of it is sent."""


def _place(kept: _Kept) -> _Place | None:
    """Where to record, made; None where nothing is to be recorded."""
    if os.environ.get("RETRACE") == "0":
        return None
    from retrace.store.place import create
    from retrace.store.remote import address_of

    out = kept.out
    if out is None and (named := os.environ.get("RETRACE_DIR")):
        out = Path(named)
    address = None if out is None else address_of(out)
    if address is None:
        new = kept.out is None
        return _Place(create(out, force=kept.force, append=kept.append, job=kept.job), new)
    if kept.force:
        raise UsageError(f"--force empties a folder here, and not {address}: name another")
    from retrace.store import sending
    from retrace.store.attempts import known_job
    from retrace.store.place import create_own, discard

    directory = create_own()
    try:
        sending.begin(address, directory, known_job(kept.job), append=kept.append)
    except UsageError:
        discard(directory)
        raise
    return _Place(directory, True, address)

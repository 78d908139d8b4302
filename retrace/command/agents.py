"""`retrace mcp`: serves recordings to agents over the Model Context Protocol on stdin and stdout.

Read-only: no tool runs a program or writes a file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from retrace.errors import RetraceError, UsageError

_INSTRUCTIONS = """retrace explains why JAX traced and compiled functions again, from recordings
made by `retrace run SCRIPT`. To save compile time: call `plan`, look at a miss with
`explain_miss` if a step is unclear, edit the program, record it again with `retrace run`, and
verify the result with `compare` and `expect`. `recording` is a directory (default: the newest
one). Steps that are not `sure: clear` may depend on what the program is meant to do: ask."""
_MAX_LISTED = 50
_MAX_LINES = 200
"""Of a comparison; further lines are counted."""


def mcp() -> int:
    """Serve recordings to agents (Model Context Protocol on stdio).

    Example:  claude mcp add retrace -- retrace mcp
    """
    server = _server()
    try:
        server.run("stdio")
    except KeyboardInterrupt:
        pass
    return 0


def _server() -> Any:
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise UsageError(
            "retrace mcp needs the MCP SDK, 2.0 or newer: pip install 'retrace-jax[mcp]'"
        ) from None
    from retrace import __version__

    server = MCPServer("retrace", instructions=_INSTRUCTIONS, version=__version__)
    for tool in (list_recordings, plan, report, explain_miss, compare):
        # As text only: with structured output, each answer would be sent twice.
        server.add_tool(_with_refusals(tool, ToolError), structured_output=False)
    return server


def _with_refusals(tool: Callable[..., str], refusal: type[Exception]) -> Callable[..., str]:
    """A tool that raises our errors as the protocol's own."""

    @wraps(tool)
    def answer(**arguments: Any) -> str:
        try:
            return tool(**arguments)
        except RetraceError as error:
            raise refusal(str(error)) from None

    return answer


def list_recordings(folder: str = "") -> str:
    """Lists recordings, newest first: directory, program, start time, processes.

    Args:
        folder: the folder to list (default: the nearest .retrace/).
    """
    from retrace.present.report_json import encode, moment
    from retrace.store.place import recordings
    from retrace.store.processes import headers

    found = list(recordings(Path(folder) if folder else None))
    listed: list[dict[str, Any]] = []
    for directory in found[:_MAX_LISTED]:
        runs = [run for _, run in headers(directory)]
        newest = max((run.attempt for run in runs), default=1)
        own = [run for run in runs if run.attempt == newest]
        listed.append(
            {
                "recording": str(directory.absolute()),
                "argv": own[0].argv[:20] if own else [],
                "started": moment(min(run.started for run in own)) if own else None,
                "jax": own[0].jax if own else None,
                "processes": len(own),
                "attempts": len({run.attempt for run in runs}),
            }
        )
    return encode({"recordings": listed, "left_off": len(found) - len(listed)})


def plan(recording: str = "", top: int = 5) -> str:
    """What to change first, what each step saves (misses, seconds), and what remains.

    Args:
        recording: its directory (default: the newest recording).
        top: maximum number of steps.
    """
    from retrace.plan import order
    from retrace.present import plan_json, report_json
    from retrace.runs.ended import cut_short

    view = _view(recording)
    found, cut = order.plan(view.recording, view.verdicts), cut_short(view.recording)
    return report_json.encode(plan_json.to_json(found, None, max(1, top), cut))


def report(recording: str = "", tokens: int = 4000) -> str:
    """All causes, most expensive first: where, how often, why, what changed, what to do.

    Args:
        recording: its directory (default: the newest recording).
        tokens: maximum length of the answer; what does not fit is counted.
    """
    from retrace.plan import order
    from retrace.present import extract, report_json
    from retrace.present.tally import Tally

    view = _view(recording)
    tally, found = Tally.of(view), order.plan(view.recording, view.verdicts)
    tally.gather(view, found)
    tally.follow(view, found)
    return report_json.encode(extract.extract(view, tally, found, tokens))


def explain_miss(miss: str, recording: str = "") -> str:
    """One miss: its cause, every change in its cache key, what changed in its program, the fix.

    Args:
        miss: an id, or a label such as 'train_step #3'.
        recording: its directory (default: the newest recording).
    """
    from retrace.command.selection import found_miss
    from retrace.present import report_json

    view = _view(recording)
    return report_json.encode(report_json.miss_report(view, found_miss(view, miss)))


def compare(old: str, new: str, expect: str = "") -> str:
    """What differs between two recordings, and whether plan steps saved what they promised.

    Args:
        old: directory of the recording made before the change.
        new: directory of the recording made after it.
        expect: steps of the old recording's plan that were applied: '2', or '1-3'.
    """
    from retrace.present import expected as promised
    from retrace.present import report_json, runs
    from retrace.runs.difference import difference
    from retrace.runs.expected import expected
    from retrace.runs.sides import Side

    views = [_view(one) for one in (old, new)]
    sides = [
        Side(view.recording, view.verdicts, name)
        for view, name in zip(views, (old, new), strict=True)
    ]
    found = difference(sides[0], sides[1])
    lines = runs.markdown(runs.report(found, views[0], views[1])).splitlines()
    fields: dict[str, Any] = {
        "equal": found.is_equal,
        "told": "\n".join(lines[:_MAX_LINES]),
        "lines_left_off": max(0, len(lines) - _MAX_LINES),
    }
    if expect:
        fields["expected"] = promised.to_json(expected(found, expect))
    return report_json.encode(fields)


def _view(recording: str) -> Any:
    from retrace.command.selection import read_view

    return read_view([Path(recording)] if recording else [])

"""The command `retrace doctor`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from retrace.command import console
from retrace.command.selection import one_of

_FORMATS = ("text", "json")


def doctor(
    format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="Output format.")
    ] = "text",
) -> int:
    """Check whether recording works with this JAX and Python; exit 1 if not.

    Compiles and records a small function in a separate process, and leaves nothing behind.

    Example:  retrace doctor
    """
    one_of("--format", format, _FORMATS)
    from retrace.doctor.examination import examine

    found = examine()
    if format == "json":
        from retrace.present import report_json

        console.write(report_json.encode(found), None)
    else:
        width, _ = console.terminal(sys.stdout)
        console.write("\n".join(_lines(found, width)) + "\n", None)
    return 0 if found["well"] else 1


def _lines(found: dict[str, Any], width: int) -> Iterator[str]:
    from retrace.present.layout import wrapped
    from retrace.present.words import clean

    python = found["python"]
    free = "" if python["gil"] else ", no GIL"
    yield f"retrace {found['retrace']}"
    for name, said in (
        (
            "Python",
            f"{python['version']} ({python['implementation']}, {python['platform']}{free})",
        ),
        ("JAX", _versions(found)),
        ("backend", found["backend"] or "unknown"),
        ("recording", _status(found, "recording")),
        ("guards", _status(found, "guards")),
        ("pytest", _status(found, "pytest")),
        ("JAX's names", _counted(found["names"])),
        ("Python's", _counted(python)),
        ("files", "; ".join(found["files"]) or "complete, and none from other packages"),
    ):
        yield from wrapped(f"  {name:<12} {clean(said, None)}", width, 15)
    rows = [*found["names"]["absent"], *python["absent"]]
    lost = [row for row in rows if row["lost"] is not None]
    for title, some in (
        ("missing, so something is not recorded", lost),
        ("missing, but not needed", [row for row in rows if row not in lost]),
    ):
        if some:
            yield f"\n{title}"
        for row in some:
            text = f"{row['name']} ({row['where']}): {row['without']}"
            yield from wrapped(f"  {clean(text, None)}", width, 4)
    yield ""
    if found["well"]:
        yield "retrace works here"
        return
    yield "something does not work here"
    for problem in found["problems"]:
        yield from wrapped(f"  {clean(problem, None)}", width, 4)


def _versions(found: dict[str, Any]) -> str:
    if found["jax"] is None:
        return "not installed"
    return f"{found['jax']}, jaxlib {found['jaxlib'] or 'not installed'}"


def _status(found: dict[str, Any], part: str) -> str:
    (one,) = (one for one in found["works"] if one["part"] == part)
    if one["works"]:
        return "works"
    why = "; ".join(one["said"])
    if one["works"] is None:
        return f"not tried{': ' if why else ''}{why}"
    return f"does not work: {why}"


def _counted(table: dict[str, Any]) -> str:
    if table["known"] is None:
        return "unknown"
    return f"{table['known'] - len(table['absent']):,} of {table['known']:,} are there"

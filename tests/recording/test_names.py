"""Everything private to JAX stands in one table, and a JAX that lacks a row of it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retrace.guards.trust import hiding
from retrace.jax_internals import losses, names
from tests import sample

RENAMED = Path(__file__).parent / "programs" / "renamed.py"
SAMPLE = 10
"""So many rows are taken away in CI; with RETRACE_TEST_ALL_NAMES=1 each of them."""
EVENTS = tuple(
    f"{kind}:{event}" for kind in ("never", "twice") for event in ("trace", "lower", "compile")
)
LOST = {"trace": losses.TRACES, "lower": losses.LOWERINGS, "compile": losses.COMPILATIONS}
SOURCES = {
    "test_event_listener": losses.TRACES.name,
    "trace_to_jaxpr": losses.TRACES.name,
    "_create_pjit_jaxpr": losses.TRACES.name,
    "jaxpr_to_mlir_module_duration": losses.LOWERINGS.name,
    "backends_are_initialized": None,
    "jit_info": losses.OPTIONS.name,
    "register_exclusion": losses.FRAMES.name,
}
"""What was seen to spoil a recording without a word, and what is lost without it."""


def test_this_jax_has_every_name_of_the_table() -> None:
    assert [f"{row.where} {row.name}" for row in names.absent()] == []


def test_no_name_stands_in_the_table_twice() -> None:
    rows = [(row.where, row.name, row.since) for row in names.TABLE]
    assert len(rows) > 130
    assert sorted(rows) == sorted(set(rows))


def test_what_is_lost_without_a_name_is_said_in_a_sentence() -> None:
    for row in names.TABLE:
        assert row.without.endswith("."), row
        assert row.lost is None or row.lost.startswith("this JAX ")


@pytest.mark.drawn
def test_one_name_less_is_told_and_takes_nothing_else_with_it(tmp_path: Path) -> None:
    expected = [str(number) for number, row in enumerate(names.TABLE) if row.expected]
    rows = [*expected, *EVENTS, *(f"source:{name}" for name in SOURCES if _is_here(name))]
    if not sample.all_of("NAMES"):
        rows = sample.shuffled(rows)[:SAMPLE]
    results = tmp_path / "results"
    done = subprocess.run(
        [sys.executable, str(RENAMED), str(results), *rows],
        capture_output=True,
        text=True,
        timeout=3600,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(found) == len(rows) + 1
    plain = found[-1]
    assert "error" not in plain, plain
    assert plain["losses"] == {}
    bad = {one["row"] + " " + one["name"]: why for one in found if (why := wrong(one, plain))}
    assert bad == {}


def _is_here(name: str) -> bool:
    """Whether this JAX has a name at all: it may belong to another release."""
    return any(row.name.endswith(name) and row.expected for row in names.TABLE)


def wrong(found: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    """What is not as it must be where one name is missing, against nothing missing."""
    if "error" in found:
        return [found["error"]]
    out: list[str] = []
    lost = _lost(found)
    if (found["guard"] == "passed") is bool(lost is not None and hiding([lost])):
        out.append(f"what a guard says: {found['guard']}")
    if found["said"] != plain["said"]:
        out.append("the program said something else")
    if any("while recording" in name for name in found["losses"]):
        out.append(f"something of ours failed: {found['losses']}")
    if lost is None:
        if found["losses"]:
            out.append(f"lost for no reason: {found['losses']}")
        same = [{**miss, "text": ""} for miss in found["misses"]]
        if same != [{**miss, "text": ""} for miss in plain["misses"]]:
            out += [
                f"{a} instead of {b}"
                for a, b in zip(same, plain["misses"], strict=False)
                if a != {**b, "text": ""}
            ]
            out.append(f"{len(same)} misses instead of {len(plain['misses'])}")
        return out
    if lost not in found["losses"]:
        out.append(f"{lost!r} is not counted")
    if lost not in " ".join(found["summary"].split()):
        out.append(f"not told in the summary: {found['summary']}")
    return [*out, *_other_causes(found, plain), *_other_stages(found, plain, lost)]


def _other_causes(found: dict[str, Any], plain: dict[str, Any]) -> Iterator[str]:
    causes: dict[int, Counter[str]] = {}
    for miss in plain["misses"]:
        causes.setdefault(miss["line"], Counter())[miss["cause"]] += 1
    for miss in found["misses"]:
        if miss["cause"] == "unknown":
            if "this JAX " not in (miss["detail"] or ""):
                yield f"unknown for no reason: {miss}"
        elif causes.get(miss["line"], Counter())[miss["cause"]] <= 0:
            yield f"another cause: {miss}"
        else:
            causes[miss["line"]][miss["cause"]] -= 1


def _other_stages(found: dict[str, Any], plain: dict[str, Any], lost: str) -> Iterator[str]:
    for stage, loss in LOST.items():
        if loss.name != lost and not (stage == "trace" and lost in _WITHOUT_TRACES):
            before, after = _ran(plain, stage), _ran(found, stage)
            if before != after:
                yield f"{stage} on {before - after} is gone, on {after - before} is new"


_WITHOUT_TRACES = (losses.CALLS.name, losses.OPERATIONS.name, losses.PMAP.name)


def _lost(found: dict[str, Any]) -> str | None:
    kind, _, name = found["row"].partition(":")
    if kind == "never":
        return LOST[name].name
    return SOURCES[name] if kind == "source" else found["lost"]


def _ran(found: dict[str, Any], stage: str) -> Counter[int]:
    return Counter(miss["line"] for miss in found["misses"] if stage in miss["stages"])

"""What two runs ran with: versions, settings, variables, flags, commit, devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, cast

from retrace.compare.deep import levels
from retrace.model import JSON, Run
from retrace.runs.sides import Side

Facts = dict[str, JSON]


class Fact(NamedTuple):
    """A property that differs."""

    name: str
    """The name that users know: `python`, `XLA_FLAGS`, `jax_enable_x64`."""
    old: JSON
    """None if it was not set."""
    new: JSON


class Environment(NamedTuple):
    """What differs, and what could not be compared."""

    facts: tuple[Fact, ...]
    unknown: tuple[str, ...]
    """Recorded on one side only, by an older retrace or because nothing was compiled."""


_PLAIN: dict[str, Callable[[Run], JSON]] = {
    "jax": lambda run: run.jax or None,
    "jaxlib": lambda run: run.jaxlib or None,
    "python": lambda run: run.python or None,
    "backend": lambda run: run.backend,
    "device_kind": lambda run: run.device_kind,
    "local_devices": lambda run: run.local_devices,
    "platform_version": lambda run: run.platform_version,
    "process_count": lambda run: run.process_count,
    "commit": lambda run: run.commit,
    "dirty": lambda run: run.dirty,
}
"""In display order."""
_KNOWN_LATER = ("backend", "device_kind", "local_devices", "platform_version", "process_count")
_OPTIONAL = (*_KNOWN_LATER, "commit", "dirty")
"""Unknown values are not differences."""
_SET_BY_JAX = ("TPU_SKIP_MDS_QUERY",)
"""Variables that JAX sets on import and that another release may not set."""


def environment(old: Side, new: Side) -> Environment:
    """Compare the environments of two recordings."""
    sides = [_facts(side) for side in (old, new)]
    unknown: list[str] = []
    for name in (*_OPTIONAL, "settings"):
        known = [bool(side.get(name) not in (None, {})) for side in sides]
        if known[0] != known[1] and name not in ("dirty", "process_count"):
            unknown.append(name)
        if not all(known):
            for side in sides:
                side.pop(name, None)
    if old.jax != new.jax:
        # A setting or variable unknown to one release is not a change by the user.
        settings = [_within(side.get("settings")) for side in sides]
        for at, side in enumerate(sides):
            shared = {n: v for n, v in settings[at].items() if n in settings[1 - at]}
            side["settings"] = shared
    return Environment(tuple(_different(*sides)), tuple(unknown))


def _facts(side: Side) -> Facts:
    """The facts about all processes of a recording; a list where they differ."""
    found: Facts = {name: _of_all(side, ask) for name, ask in _PLAIN.items()}
    found["argv"] = _of_all(side, lambda run: " ".join([_script(run), *run.argv[1:]]))
    variables = {name for run in side.runs for name in run.variables} - set(_SET_BY_JAX)
    found["variables"] = {
        name: _of_all(side, lambda run, name=name: run.variables.get(name))
        for name in sorted(variables)
    }
    # A process that compiled nothing did not record its settings.
    with_settings = [run for run in side.runs if run.settings]
    settings = {name for run in with_settings for name in run.settings}
    found["settings"] = {
        name: _common([run.settings.get(name) for run in with_settings])
        for name in sorted(settings)
    }
    found["processes"] = len(side.runs)
    return found


def _script(run: Run) -> str:
    # The name of the script matters, its folder does not.
    return os.path.basename(run.argv[0]) if run.argv else ""


def _of_all(side: Side, ask: Callable[[Run], JSON]) -> JSON:
    return _common([ask(run) for run in side.runs])


def _common(values: list[JSON]) -> JSON:
    """The common value, or a list of all values."""
    known = list(dict.fromkeys(repr(value) for value in values if value is not None))
    if len(known) < 2:
        return next((value for value in values if value is not None), None)
    found: list[JSON] = []
    for value in values:
        if value not in found:
            found.append(value)
    return sorted(found, key=repr)


def _different(old: Facts, new: Facts) -> list[Fact]:
    if old == new:  # the usual case, which saves a slow import
        return []
    found: dict[str, Fact] = {}
    for level in levels(old, new):
        # If processes differ, the whole list is shown.
        path = [str(part) for part in level.path(output_format="list") if type(part) is str]
        sides = [_at(side, path) for side in (old, new)]
        found[path[-1]] = Fact(path[-1], *sides)
    order = [*_PLAIN, "processes"]
    groups = {
        **dict.fromkeys(order, 0),
        **dict.fromkeys(_within(old.get("settings")), 1),
        **dict.fromkeys(_within(new.get("settings")), 1),
        "argv": 3,
    }
    return sorted(
        found.values(),
        key=lambda fact: (
            groups.get(fact.name, 2),
            order.index(fact.name) if fact.name in order else 0,
            fact.name,
        ),
    )


def _at(facts: Facts, path: list[str]) -> JSON:
    found: JSON = facts
    for part in path:
        found = _within(found).get(part)
    return found


def _within(value: JSON) -> Facts:
    return cast(Facts, value) if isinstance(value, dict) else {}
